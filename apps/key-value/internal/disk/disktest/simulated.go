// Package disktest has a disk in memory that loses power, or fails, at a chosen moment.
package disktest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"

	"tailor/apps/key-value/internal/disk"
)

// ErrNoPower is the error of everything that comes after the power was lost.
var ErrNoPower = errors.New("the power is lost")

// ErrDevice is the error of a device that fails.
var ErrDevice = errors.New("the device failed")

// Disk implements disk.Disk. What was not synced when the power is lost is there in part: of a file's bytes a prefix,
// of which a page may be zeros, and any of the changed names.
type Disk struct {
	mutex   sync.Mutex
	random  *rand.Rand
	files   map[string]*content
	durable map[string]*content // names as they were synced
	left    int                 // operations until the power is lost; negative: it is not
	failing bool
}

type content struct{ data, synced []byte }

// New makes an empty disk.
func New(random *rand.Rand) *Disk {
	return &Disk{random: random, files: map[string]*content{}, durable: map[string]*content{}, left: -1}
}

// LosePowerAfter lets so many operations happen, the last of which may be done in part.
func (d *Disk) LosePowerAfter(operations int) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.left = operations
}

// Fail makes every write and sync fail from now on, or no more.
func (d *Disk) Fail(failing bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.failing = failing
}

// Restart is the disk as it is found when the power is back; the old one is of no use any more.
func (d *Disk) Restart() *Disk {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.left = 0
	found := New(d.random)
	names := map[string]*content{}
	for name, file := range d.durable {
		names[name] = file
	}
	// A directory's changes reach the device in their order or not at all only in a journal; here each may.
	for name, file := range d.files {
		if d.random.IntN(2) == 0 {
			names[name] = file
		}
	}
	for name := range names {
		if _, isThere := d.files[name]; !isThere && d.random.IntN(2) == 0 {
			delete(names, name)
		}
	}
	for name, file := range names {
		data := d.survivors(file)
		found.files[name] = &content{data: data, synced: slices.Clone(data)}
		found.durable[name] = found.files[name]
	}
	return found
}

// Kill is the disk as the next process finds it after kill -9: nothing that was written is lost, and nothing of it is
// more durable than before.
func (d *Disk) Kill() *Disk {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.left = 0
	found := New(d.random)
	copies := map[*content]*content{} // a file may have one name now, and another one that is durable
	copyOf := func(file *content) *content {
		if copies[file] == nil {
			copies[file] = &content{data: slices.Clone(file.data), synced: slices.Clone(file.synced)}
		}
		return copies[file]
	}
	for name, file := range d.files {
		found.files[name] = copyOf(file)
	}
	for name, file := range d.durable {
		found.durable[name] = copyOf(file)
	}
	return found
}

const page = 512

func (d *Disk) survivors(file *content) []byte {
	data := slices.Clone(file.synced)
	if extra := len(file.data) - len(file.synced); extra > 0 {
		data = append(data, file.data[len(file.synced):][:d.random.IntN(extra+1)]...)
		if lost := len(data) - len(file.synced); lost > page && d.random.IntN(3) == 0 {
			start := len(file.synced) + d.random.IntN(lost-page)
			clear(data[start : start+page])
		}
	}
	return data
}

// step counts an operation; it is false when the power is lost before it.
func (d *Disk) step() bool {
	if d.left == 0 {
		return false
	}
	if d.left > 0 {
		d.left--
	}
	return true
}

// Create implements disk.Disk.
func (d *Disk) Create(name string) (disk.File, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if !d.step() {
		return nil, ErrNoPower
	}
	d.files[name] = &content{}
	return &file{d, d.files[name]}, nil
}

// Open implements disk.Disk.
func (d *Disk) Open(name string) (io.ReadCloser, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	found, isThere := d.files[name]
	if !isThere {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(slices.Clone(found.data))), nil
}

// Truncate implements disk.Disk.
func (d *Disk) Truncate(name string, size int64) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if !d.step() {
		return ErrNoPower
	}
	found := d.files[name]
	found.data = found.data[:size]
	found.synced = slices.Clone(found.data)
	return nil
}

// Rename implements disk.Disk.
func (d *Disk) Rename(from, to string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if !d.step() {
		return ErrNoPower
	}
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

// Remove implements disk.Disk.
func (d *Disk) Remove(name string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if !d.step() {
		return ErrNoPower
	}
	delete(d.files, name)
	return nil
}

// List implements disk.Disk.
func (d *Disk) List() ([]string, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	var names []string
	for name := range d.files {
		names = append(names, name)
	}
	return names, nil
}

// Sync implements disk.Disk.
func (d *Disk) Sync() error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if !d.step() {
		return ErrNoPower
	}
	d.durable = map[string]*content{}
	for name, file := range d.files {
		d.durable[name] = file
	}
	return nil
}

// Close implements disk.Disk.
func (d *Disk) Close() error { return nil }

// Damage changes one byte of a file, on the device too.
func (d *Disk) Damage(name string, at int) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	file := d.files[name]
	file.data[at] ^= 0x55
	if at < len(file.synced) {
		file.synced[at] ^= 0x55
	}
}

// Size is the length of a file.
func (d *Disk) Size(name string) int {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return len(d.files[name].data)
}

type file struct {
	disk    *Disk
	content *content
}

func (f *file) Write(data []byte) (int, error) {
	f.disk.mutex.Lock()
	defer f.disk.mutex.Unlock()
	if f.disk.failing {
		return 0, ErrDevice
	}
	if !f.disk.step() {
		return 0, ErrNoPower
	}
	f.content.data = append(f.content.data, data...)
	return len(data), nil
}

func (f *file) Sync() error {
	f.disk.mutex.Lock()
	defer f.disk.mutex.Unlock()
	if f.disk.failing {
		return ErrDevice
	}
	if !f.disk.step() {
		return ErrNoPower
	}
	f.content.synced = slices.Clone(f.content.data)
	return nil
}

func (f *file) Close() error { return nil }
