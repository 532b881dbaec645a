package table

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"tailor/apps/key-value/internal/record"
)

// region is address space for a fixed number of records, reserved at once and backed by memory only where it was
// written. It lies outside Go's heap: the garbage collector neither scans it nor counts it, so that GOGC is about
// connections and indexes alone, and a record never moves.
type region struct {
	values []byte   // record.Size bytes for each record
	keys   []uint64 // one for each record
	mapped [][]byte
}

// reserve makes a region for so many records.
func reserve(records int) (region, error) {
	var r region
	for _, size := range []int{record.Size, record.KeySize} {
		flags := unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_NORESERVE
		memory, err := unix.Mmap(-1, 0, records*size, unix.PROT_READ|unix.PROT_WRITE, flags)
		if err != nil {
			r.release()
			return region{}, fmt.Errorf("address space for %d records: %w", records, err)
		}
		r.mapped = append(r.mapped, memory)
	}
	// With huge pages an entry of the translation buffer stands for 2 MiB of the values instead of 4 KiB. A kernel
	// without them refuses, and nothing is lost.
	_ = unix.Madvise(r.mapped[0], unix.MADV_HUGEPAGE)
	r.values = r.mapped[0]
	r.keys = unsafe.Slice((*uint64)(unsafe.Pointer(&r.mapped[1][0])), records)
	return r, nil
}

// value is the place of a record's value.
func (r *region) value(number uint32) []byte {
	at := int(number) * record.Size
	return r.values[at : at+record.Size : at+record.Size]
}

func (r *region) release() {
	for _, memory := range r.mapped {
		_ = unix.Munmap(memory)
	}
	*r = region{}
}
