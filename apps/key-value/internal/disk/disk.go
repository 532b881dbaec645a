// Package disk is what snapshots and logs need of a file system, small enough that a test can lose power in the middle
// of it (package disktest).
package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Disk is one flat directory.
type Disk interface {
	// Create makes an empty file, in the place of one with this name. Its name is durable after Sync.
	Create(name string) (File, error)
	// Open opens a file for reading.
	Open(name string) (io.ReadCloser, error)
	// Truncate cuts a file off and makes that durable.
	Truncate(name string, size int64) error
	// Rename gives a file another name, in the place of one that has it; durable after Sync.
	Rename(from, to string) error
	// Remove removes a file.
	Remove(name string) error
	// List returns the names of all files.
	List() ([]string, error)
	// Sync makes names durable.
	Sync() error
	// Close ends the use of the directory.
	Close() error
}

// File is a file that is written from its beginning to its end.
type File interface {
	io.Writer
	// Sync makes what was written durable. After an error nobody knows what is.
	Sync() error
	Close() error
}

// directory is a Disk of the operating system.
type directory struct {
	path string
	lock *os.File
}

// ErrInUse says that another process works on the directory.
var ErrInUse = errors.New("another process uses the directory")

// At opens a directory, which is made where there is none, for this process alone.
func At(path string) (Disk, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	// The kernel lets go of it when the process ends, however it ends.
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("%s: %w", path, ErrInUse)
	}
	return &directory{path: path, lock: lock}, nil
}

const lockName = "lock"

func (d *directory) name(name string) string { return filepath.Join(d.path, name) }

func (d *directory) Create(name string) (File, error) {
	file, err := os.OpenFile(d.name(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return dataFile{file}, nil
}

// dataFile syncs data and size, and not the times of the file, which nobody needs.
type dataFile struct{ *os.File }

func (f dataFile) Sync() error { return unix.Fdatasync(int(f.Fd())) }

func (d *directory) Open(name string) (io.ReadCloser, error) { return os.Open(d.name(name)) }

func (d *directory) Truncate(name string, size int64) error {
	file, err := os.OpenFile(d.name(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(size), file.Sync(), file.Close())
}

func (d *directory) Rename(from, to string) error { return os.Rename(d.name(from), d.name(to)) }

func (d *directory) Remove(name string) error { return os.Remove(d.name(name)) }

func (d *directory) List() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	var names []string
	for _, entry := range entries {
		if entry.Name() != lockName {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

func (d *directory) Sync() error {
	opened, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}

func (d *directory) Close() error { return d.lock.Close() }
