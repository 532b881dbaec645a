package table

import "tailor/apps/key-value/internal/record"

// GetBatch copies the values of keys into the slices with their numbers, and says which were found.
//
// Records of a large table lie in no cache. So the keys are looked up first, each independent of the others, and their
// values are on their way into the cache before any of them is copied. BenchmarkTable compares it with single gets.
func (t *Table) GetBatch(keys []uint64, into [][]byte, found []bool) {
	var numbers [batch]uint32
	for len(keys) > 0 {
		count := min(len(keys), batch)
		t.find(keys[:count], &numbers)
		for i, number := range numbers[:count] {
			found[i] = number != none
			if !found[i] {
				continue
			}
			s := t.shard(t.hash(keys[i]))
			s.mutex.Lock()
			copy(into[i], t.region.value(number))
			s.mutex.Unlock()
		}
		keys, into, found = keys[count:], into[count:], found[count:]
	}
}

// Fetch brings what a put of each of the keys needs into the cache, side by side.
func (t *Table) Fetch(keys []uint64) {
	var numbers [batch]uint32
	for len(keys) > 0 {
		count := min(len(keys), batch)
		t.find(keys[:count], &numbers)
		keys = keys[count:]
	}
}

// batch is how many keys are looked up before their values are copied.
const batch = 16

// none is the number of no record.
const none = ^uint32(0)

func (t *Table) find(keys []uint64, numbers *[batch]uint32) {
	for i, key := range keys {
		hash := t.hash(key)
		number, found := t.shard(hash).find(hash, t.region.keys, key)
		if !found {
			numbers[i] = none
			continue
		}
		numbers[i] = number
		prefetch(&t.region.values[int(number)*record.Size])
	}
}
