package table

import "sync/atomic"

// An index maps hashes to numbers of records by open addressing with linear probing (Knuth, The Art of Computer
// Programming, vol. 3, section 6.4, algorithm L). An entry is one word, the low half of the hash beside the number of
// the record plus one; 0 is empty. So a probe reads one word, growing needs no key, and eight entries share a line of
// the cache.
//
// Entries are written once and never change, because a key keeps its record and nothing is deleted. Readers therefore
// need no lock: they see an entry or they do not.
type index struct {
	entries []atomic.Uint64
	mask    uint32
}

func newIndex(entries int) *index {
	return &index{entries: make([]atomic.Uint64, entries), mask: uint32(entries - 1)}
}

// find is the number of the record of key, among records whose keys stand in keys.
func (x *index) find(hash uint64, keys []uint64, key uint64) (number uint32, found bool) {
	low := uint32(hash)
	for at := low & x.mask; ; at = (at + 1) & x.mask {
		entry := x.entries[at].Load()
		if entry == 0 {
			return 0, false
		}
		if uint32(entry>>32) == low {
			number = uint32(entry) - 1
			if keys[number] == key {
				return number, true
			}
		}
	}
}

// likely is the number of the first record whose key has the low half of this hash; none where there is none.
func (x *index) likely(hash uint64) uint32 {
	low := uint32(hash)
	for at := low & x.mask; ; at = (at + 1) & x.mask {
		entry := x.entries[at].Load()
		if entry == 0 {
			return none
		}
		if uint32(entry>>32) == low {
			return uint32(entry) - 1
		}
	}
}

// add writes an entry for a record that the index does not have; there is always an empty one.
func (x *index) add(low, number uint32) { x.place(uint64(low)<<32 | uint64(number+1)) }

func (x *index) place(entry uint64) {
	at := uint32(entry>>32) & x.mask
	for x.entries[at].Load() != 0 {
		at = (at + 1) & x.mask
	}
	x.entries[at].Store(entry)
}
