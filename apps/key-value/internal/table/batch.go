package table

import (
	"unsafe"

	"tailor/apps/key-value/internal/record"
)

// GetBatch copies the values of keys into the slices with their numbers, and says which were found.
//
// Index and records of a large table lie in no cache. So all keys take each step before any takes the next, and what
// the next step reads is on its way into the cache meanwhile (group prefetching: Chen et al., Improving Hash Join
// Performance through Prefetching, ICDE 2004). BenchmarkTable compares it with single gets.
func (t *Table) GetBatch(keys []uint64, into [][]byte, found []bool) {
	var all [batch]lookup
	for len(keys) > 0 {
		count := min(len(keys), batch)
		t.find(keys[:count], &all)
		for i := range all[:count] {
			number := all[i].number
			found[i] = number != none
			if !found[i] {
				continue
			}
			s := all[i].shard
			s.mutex.Lock()
			copy(into[i], t.region.value(number))
			s.mutex.Unlock()
		}
		keys, into, found = keys[count:], into[count:], found[count:]
	}
}

// Fetch brings what a put of each of the keys needs into the cache, side by side.
func (t *Table) Fetch(keys []uint64) {
	var all [batch]lookup
	for len(keys) > 0 {
		count := min(len(keys), batch)
		t.find(keys[:count], &all)
		keys = keys[count:]
	}
}

// batch is how many keys are looked up before their values are copied.
const batch = 16

// none is the number of no record.
const none = ^uint32(0)

// lookup is a key on its way to the number of its record.
type lookup struct {
	hash   uint64
	shard  *shard
	number uint32
}

func (t *Table) find(keys []uint64, all *[batch]lookup) {
	for i, key := range keys {
		hash := t.hash(key)
		s := t.shard(hash)
		all[i] = lookup{hash: hash, shard: s}
		current := s.indexes.Load().current
		prefetchLine(unsafe.Pointer(&current.entries[uint32(hash)&current.mask]))
	}
	for i := range all[:len(keys)] {
		l := &all[i]
		// The likely record: that it is of this key, and not of one with half the hash in common, is seen next.
		if l.number = l.shard.indexes.Load().current.likely(l.hash); l.number != none {
			prefetchLine(unsafe.Pointer(&t.region.keys[l.number]))
			prefetch(&t.region.values[int(l.number)*record.Size])
		}
	}
	for i, key := range keys {
		l := &all[i]
		if l.number != none && t.region.keys[l.number] == key {
			continue
		}
		number, found := l.shard.find(l.hash, t.region.keys, key)
		if !found {
			number = none
		}
		l.number = number
	}
}
