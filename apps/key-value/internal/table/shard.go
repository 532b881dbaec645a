package table

import (
	"sync"
	"sync/atomic"
)

const (
	minEntries      = 64
	fullNumerator   = 3 // an index grows when it is three quarters full: a hit then takes 2.5 probes, a miss 8.5
	fullDenominator = 4
	// movedPerPut entries of the old index are copied with each put of a new key while an index grows. The new index
	// has room for as many new keys as the old one has entries times 3/4, so that two would do; more end it sooner.
	movedPerPut = 32
)

// slabRecords is how many neighbouring records a shard takes at once, so that it seldom asks for more and a walk over
// the table locks a shard once for each.
const slabRecords = 16

// indexes are the current index of a shard and, while that is being filled, the one before it. Every key is in one of
// them; those of the old one stay valid in it, so that a reader that holds an outdated pair is not misled.
type indexes struct{ current, old *index }

// shard is a part of the keys with a lock of its own.
type shard struct {
	mutex   sync.Mutex
	indexes atomic.Pointer[indexes]
	count   int      // records
	moved   int      // entries of the old index that the current one has
	slabs   []uint32 // first record of each slab, in the order in which they were filled
	filled  int      // records of the last slab that are used
	_       [64]byte // neighbours do not share a line of the cache
}

func (s *shard) find(hash uint64, keys []uint64, key uint64) (uint32, bool) {
	pair := s.indexes.Load()
	if number, found := pair.current.find(hash, keys, key); found || pair.old == nil {
		return number, found
	}
	return pair.old.find(hash, keys, key)
}

// add enters a record that the shard does not have. The caller holds the lock and has written key and value.
func (s *shard) add(hash uint64, number uint32) {
	pair := s.indexes.Load()
	if pair.old == nil && (s.count+1)*fullDenominator > len(pair.current.entries)*fullNumerator {
		pair = &indexes{current: newIndex(2 * len(pair.current.entries)), old: pair.current}
		s.indexes.Store(pair)
		s.moved = 0
	}
	if pair.old != nil {
		s.move(pair)
	}
	pair.current.add(uint32(hash), number)
	s.count++
}

// move copies some entries of the old index; the last ones let go of it.
func (s *shard) move(pair *indexes) {
	end := min(s.moved+movedPerPut, len(pair.old.entries))
	for ; s.moved < end; s.moved++ {
		if entry := pair.old.entries[s.moved].Load(); entry != 0 {
			pair.current.place(entry)
		}
	}
	if end == len(pair.old.entries) {
		s.indexes.Store(&indexes{current: pair.current})
	}
}

func (s *shard) indexBytes() int {
	pair := s.indexes.Load()
	bytes := 8 * len(pair.current.entries)
	if pair.old != nil {
		bytes += 8 * len(pair.old.entries)
	}
	return bytes
}
