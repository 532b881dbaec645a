// Package table is a hash table of fixed-size records in memory: sharded, open addressing, without deletion, without an
// allocation for a get or an overwriting put, and with memory that stays close to the payload. It knows nothing of
// disks: a Change lets a log see every put in the order in which the table takes it, and Walk gives a snapshot its
// records.
package table

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"tailor/apps/key-value/internal/record"
)

// MaxRecords bounds a table: numbers of records have 32 bits, and the largest stands for none.
const MaxRecords = math.MaxUint32 - MaxShards*slabRecords

// MaxShards bounds how many shards a table has.
const MaxShards = 4096

// ErrFull says that a new key was refused, because the table holds as many records as it may.
var ErrFull = errors.New("the table is full")

// Table is safe for use by several goroutines until it is closed.
type Table struct {
	region   region
	capacity int64
	shards   []shard
	seed     uint64       // drawn anew for each table, so that nobody can choose keys that collide
	count    atomic.Int64 // records
	taken    atomic.Uint32
}

// Change is called for each put while its shard is locked, before the table changes: a log that appends in it has all
// puts of one key in the order of the table's. An error refuses the put.
type Change func(key uint64, value []byte) error

// New makes a table for at most so many records, in so many shards.
func New(records, shards int) (*Table, error) {
	if records < 1 || records > MaxRecords {
		return nil, fmt.Errorf("%d records: allowed is 1 to %d", records, MaxRecords)
	}
	if shards < 1 || shards > MaxShards {
		return nil, fmt.Errorf("%d shards: allowed is 1 to %d", shards, MaxShards)
	}
	// The last slab of each shard may have room that no other shard can use.
	region, err := reserve(records + shards*slabRecords)
	if err != nil {
		return nil, err
	}
	t := &Table{
		region:   region,
		capacity: int64(records),
		shards:   make([]shard, shards),
		seed:     rand.Uint64(),
	}
	for i := range t.shards {
		t.shards[i].indexes.Store(&indexes{current: newIndex(minEntries)})
	}
	return t, nil
}

// Close gives the memory back. Nothing may use the table any more.
func (t *Table) Close() { t.region.release() }

// hash is the finalizer of MurmurHash3 (Appleby, public domain): a bijection whose every output bit depends on every
// input bit, so that the high half can choose the shard and the low half the entry.
func (t *Table) hash(key uint64) uint64 {
	h := key ^ t.seed
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// shard is the one that a key with this hash belongs to; the multiplication spreads the hashes evenly over any number
// of shards (Lemire, Fast random integer generation in an interval, ACM TOMACS 29, 2019).
func (t *Table) shard(hash uint64) *shard { return &t.shards[(hash>>32)*uint64(len(t.shards))>>32] }

// Len is the number of records.
func (t *Table) Len() int { return int(t.count.Load()) }

// Get copies the value of key into into, whose length is record.Size, and says whether there is one.
func (t *Table) Get(key uint64, into []byte) bool {
	hash := t.hash(key)
	s := t.shard(hash)
	number, found := s.find(hash, t.region.keys, key)
	if !found {
		return false
	}
	s.mutex.Lock()
	copy(into, t.region.value(number))
	s.mutex.Unlock()
	return true
}

// Put stores value, whose length is record.Size, under key. change may be nil. Errors are ErrFull and those of change.
func (t *Table) Put(key uint64, value []byte, change Change) error {
	hash := t.hash(key)
	s := t.shard(hash)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	number, found := s.find(hash, t.region.keys, key)
	if !found && t.count.Add(1) > t.capacity {
		t.count.Add(-1)
		return ErrFull
	}
	if change != nil {
		if err := change(key, value); err != nil {
			if !found {
				t.count.Add(-1)
			}
			return err
		}
	}
	if found {
		copy(t.region.value(number), value)
		return nil
	}
	number = t.place(s)
	t.region.keys[number] = key
	copy(t.region.value(number), value)
	s.add(hash, number)
	return nil
}

// place takes the next record of a shard; that there is one is certain, because the capacity was checked.
func (t *Table) place(s *shard) uint32 {
	if len(s.slabs) == 0 || s.filled == slabRecords {
		s.slabs = append(s.slabs, t.taken.Add(slabRecords)-slabRecords)
		s.filled = 0
	}
	s.filled++
	return s.slabs[len(s.slabs)-1] + uint32(s.filled-1)
}

// Walk calls visit with copies of all records, some at a time: each record as it was at one moment of the walk. What
// was put before the walk is in it; what is put meanwhile may be. An error of visit ends the walk.
func (t *Table) Walk(visit func(keys []uint64, values []byte) error) error {
	keys := make([]uint64, slabRecords)
	values := make([]byte, slabRecords*record.Size)
	for i := range t.shards {
		s := &t.shards[i]
		for slab := 0; ; slab++ {
			count := t.copySlab(s, slab, keys, values)
			if count == 0 {
				break
			}
			if err := visit(keys[:count], values[:count*record.Size]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Table) copySlab(s *shard, slab int, keys []uint64, values []byte) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if slab >= len(s.slabs) {
		return 0
	}
	count, first := slabRecords, int(s.slabs[slab])
	if slab == len(s.slabs)-1 {
		count = s.filled
	}
	copy(keys, t.region.keys[first:first+count])
	copy(values, t.region.values[first*record.Size:(first+count)*record.Size])
	return count
}

// Bytes is the memory that records, keys and indexes take.
func (t *Table) Bytes() int {
	total := int(t.taken.Load()) * record.PairSize
	for i := range t.shards {
		s := &t.shards[i]
		s.mutex.Lock()
		total += s.indexBytes() + 4*cap(s.slabs)
		s.mutex.Unlock()
	}
	return total
}
