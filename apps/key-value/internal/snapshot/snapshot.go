// Package snapshot writes all records to a file, and reads them back. A file counts only under its final name, which it
// has once all of it is on the device.
package snapshot

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"tailor/apps/key-value/internal/disk"
	"tailor/apps/key-value/internal/record"
)

// A file has a header, blocks and an end. All numbers are little-endian, checksums are CRC-32C:
//
//	header: magic "KVSNAP01", generation (8), last (8), checksum of these (4)
//	block:  number of records (4), checksum of keys and values (4), keys (8 each), values (1,024 each)
//	end:    0 (4), checksum of the number (4), number of all records (8)
const (
	headerSize   = 28
	blockHeader  = 8
	blockRecords = 1024
	syncEvery    = 32 << 20 // bytes, so that the last sync does not hold up the log's
	partial      = ".partial"
)

var magic = []byte("KVSNAP01")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header says what a snapshot stands for: all puts up to last, which are those of the logs before its generation. It
// may have later ones of the log of this generation, which is replayed over it.
type Header struct{ Generation, Last uint64 }

// readAtOnce is how much of a file is read at once.
const readAtOnce = 256 << 10

// FileName is the name of the snapshot of a generation.
func FileName(generation uint64) string { return fmt.Sprintf("snapshot-%d", generation) }

// Generations are those of the snapshots among names, in their order.
func Generations(names []string) []uint64 { return disk.Generations(names, "snapshot-") }

// Partial are the names of files whose writing was not finished.
func Partial(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasSuffix(name, partial) })
}

// Write writes the records that walk yields, some at a time, beside what is there, and then gives the file its name.
func Write(on disk.Disk, header Header, walk func(visit func(keys []uint64, values []byte) error) error) (err error) {
	name := FileName(header.Generation)
	file, err := on.Create(name + partial)
	if err != nil {
		return err
	}
	w := &writer{file: file}
	err = w.all(header, walk)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = on.Rename(name+partial, name)
	}
	if err == nil {
		return on.Sync()
	}
	_ = on.Remove(name + partial) // it is removed at the next start, too
	return err
}

type writer struct {
	file     disk.File
	keys     []byte
	values   []byte
	records  uint64
	unsynced int
}

func (w *writer) all(header Header, walk func(visit func(keys []uint64, values []byte) error) error) error {
	if err := w.write(header.encode()); err != nil {
		return err
	}
	err := walk(func(keys []uint64, values []byte) error {
		for _, key := range keys {
			w.keys = binary.LittleEndian.AppendUint64(w.keys, key)
		}
		w.values = append(w.values, values...)
		w.records += uint64(len(keys))
		if len(w.keys) < blockRecords*record.KeySize {
			return nil
		}
		return w.block()
	})
	if err == nil && len(w.keys) > 0 {
		err = w.block()
	}
	if err == nil {
		err = w.end()
	}
	if err == nil {
		err = w.file.Sync()
	}
	return err
}

func (h Header) encode() []byte {
	text := append(make([]byte, 0, headerSize), magic...)
	text = binary.LittleEndian.AppendUint64(text, h.Generation)
	text = binary.LittleEndian.AppendUint64(text, h.Last)
	return binary.LittleEndian.AppendUint32(text, crc32.Checksum(text, castagnoli))
}

func (w *writer) block() error {
	checksum := crc32.Update(crc32.Checksum(w.keys, castagnoli), castagnoli, w.values)
	var start [blockHeader]byte
	binary.LittleEndian.PutUint32(start[:], uint32(len(w.keys)/record.KeySize))
	binary.LittleEndian.PutUint32(start[4:], checksum)
	for _, part := range [][]byte{start[:], w.keys, w.values} {
		if err := w.write(part); err != nil {
			return err
		}
	}
	w.keys, w.values = w.keys[:0], w.values[:0]
	return nil
}

func (w *writer) end() error {
	var count [8]byte
	binary.LittleEndian.PutUint64(count[:], w.records)
	var start [blockHeader]byte
	binary.LittleEndian.PutUint32(start[4:], crc32.Checksum(count[:], castagnoli))
	return w.write(append(start[:], count[:]...))
}

func (w *writer) write(data []byte) error {
	if _, err := w.file.Write(data); err != nil {
		return err
	}
	if w.unsynced += len(data); w.unsynced >= syncEvery {
		w.unsynced = 0
		return w.file.Sync()
	}
	return nil
}

// DamageError says that a snapshot is not what was written.
type DamageError struct{ File, Reason string }

func (e *DamageError) Error() string { return fmt.Sprintf("%s is damaged: %s", e.File, e.Reason) }

// Read calls visit with the records of a snapshot, some at a time. A DamageError may come after some of them.
func Read(on disk.Disk, generation uint64, visit func(keys []uint64, values []byte) error) (Header, error) {
	name := FileName(generation)
	file, err := on.Open(name)
	if err != nil {
		return Header{}, err
	}
	defer file.Close()
	r := &reader{input: bufio.NewReaderSize(file, readAtOnce), name: name}
	header, err := r.header()
	if err == nil && header.Generation != generation {
		err = r.damage("it is of generation %d", header.Generation)
	}
	for more := true; err == nil && more; {
		more, err = r.block(visit)
	}
	return header, err
}

type reader struct {
	input   *bufio.Reader
	name    string
	records uint64
	keys    []uint64
	buffer  []byte
}

func (r *reader) damage(format string, arguments ...any) error {
	return &DamageError{r.name, fmt.Sprintf(format, arguments...)}
}

// take reads so many bytes, which are the caller's until the next call.
func (r *reader) take(count int) ([]byte, error) {
	r.buffer = slices.Grow(r.buffer[:0], count)[:count]
	_, err := io.ReadFull(r.input, r.buffer)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, r.damage("it ends after %d records", r.records)
	}
	return r.buffer, err
}

func (r *reader) header() (Header, error) {
	text, err := r.take(headerSize)
	if err != nil {
		return Header{}, err
	}
	checked := text[:headerSize-4]
	if string(text[:len(magic)]) != string(magic) ||
		binary.LittleEndian.Uint32(text[headerSize-4:]) != crc32.Checksum(checked, castagnoli) {
		return Header{}, r.damage("no header")
	}
	return Header{binary.LittleEndian.Uint64(text[8:]), binary.LittleEndian.Uint64(text[16:])}, nil
}

// block reads a block; there are no more after the end.
func (r *reader) block(visit func(keys []uint64, values []byte) error) (more bool, err error) {
	start, err := r.take(blockHeader)
	if err != nil {
		return false, err
	}
	count, checksum := int(binary.LittleEndian.Uint32(start)), binary.LittleEndian.Uint32(start[4:])
	if count == 0 {
		return false, r.end(checksum)
	}
	if count > 2*blockRecords {
		return false, r.damage("a block of %d records", count)
	}
	text, err := r.take(count * record.PairSize)
	if err != nil {
		return false, err
	}
	if crc32.Checksum(text, castagnoli) != checksum {
		return false, r.damage("the checksum after record %d is wrong", r.records)
	}
	r.keys = r.keys[:0]
	for number := range count {
		r.keys = append(r.keys, binary.LittleEndian.Uint64(text[number*record.KeySize:]))
	}
	r.records += uint64(count)
	return true, visit(r.keys, text[count*record.KeySize:])
}

func (r *reader) end(checksum uint32) error {
	count, err := r.take(8)
	if err != nil {
		return err
	}
	if crc32.Checksum(count, castagnoli) != checksum || binary.LittleEndian.Uint64(count) != r.records {
		return r.damage("it has %d records and says something else", r.records)
	}
	if _, err := r.input.ReadByte(); err != io.EOF {
		return r.damage("something follows its end")
	}
	return nil
}
