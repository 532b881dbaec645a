package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"tailor/apps/key-value/internal/record"
)

// valueOf is the value of a key in one of its versions; every word of it shows both.
func valueOf(key, version uint64) []byte {
	value := make([]byte, record.Size)
	for at := 0; at < len(value); at += 8 {
		binary.LittleEndian.PutUint64(value[at:], key*0x9e3779b97f4a7c15+version+uint64(at))
	}
	return value
}

func newTable(t testing.TB, records, shards int) *Table {
	t.Helper()
	made, err := New(records, shards)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

// TestTableIsAMap compares random operations with Go's map, for keys near each other, far apart and repeated.
func TestTableIsAMap(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		made := newTable(t, 5_000, 1+random.IntN(100))
		model := map[uint64]uint64{}
		keyBits := 4 + random.IntN(60)
		for step := range uint64(6_000) {
			key := random.Uint64() >> (64 - keyBits)
			if random.IntN(3) > 0 {
				if err := made.Put(key, valueOf(key, step), nil); err != nil {
					if len(model) == 5_000 && errors.Is(err, ErrFull) {
						continue
					}
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
				model[key] = step
			}
			into := make([]byte, record.Size)
			version, isKnown := model[key]
			if found := made.Get(key, into); found != isKnown {
				t.Fatalf("seed %d, step %d, key %d: found %v, put %v", seed, step, key, found, isKnown)
			}
			if isKnown && !bytes.Equal(into, valueOf(key, version)) {
				t.Fatalf("seed %d, step %d, key %d: not the value put last", seed, step, key)
			}
		}
		checkAll(t, made, model)
	}
}

// checkAll compares a walk, batches and the length with a model.
func checkAll(t *testing.T, made *Table, model map[uint64]uint64) {
	t.Helper()
	if made.Len() != len(model) {
		t.Errorf("%d records, %d were put", made.Len(), len(model))
	}
	walked := map[uint64]bool{}
	err := made.Walk(func(keys []uint64, values []byte) error {
		for number, key := range keys {
			if walked[key] {
				return fmt.Errorf("key %d comes twice", key)
			}
			walked[key] = true
			if !bytes.Equal(values[number*record.Size:][:record.Size], valueOf(key, model[key])) {
				return fmt.Errorf("key %d: not the value put last", key)
			}
		}
		return nil
	})
	if err != nil || len(walked) != len(model) {
		t.Errorf("the walk saw %d of %d records: %v", len(walked), len(model), err)
	}
	var keys []uint64
	var into [][]byte
	for key := range model {
		keys = append(keys, key, key+1)
		into = append(into, make([]byte, record.Size), make([]byte, record.Size))
	}
	found := make([]bool, len(keys))
	made.GetBatch(keys, into, found)
	for number, key := range keys {
		version, isKnown := model[key]
		if found[number] != isKnown || isKnown && !bytes.Equal(into[number], valueOf(key, version)) {
			t.Fatalf("batch, key %d: found %v, put %v", key, found[number], isKnown)
		}
	}
}

// TestKeysWithHalfAHashInCommon: of 200,000 keys, four or five pairs have the same low 32 bits.
func TestKeysWithHalfAHashInCommon(t *testing.T) {
	const keys = 200_000
	made := newTable(t, 10, 1)
	made.seed = 1
	lows, pairs := map[uint32]uint64{}, 0
	for key := range uint64(keys) {
		low := uint32(made.hash(key))
		first, taken := lows[low]
		lows[low] = key
		if !taken {
			continue
		}
		if pairs++; pairs > 2 {
			break // the table has room for five
		}
		model := map[uint64]uint64{first: 1}
		_ = made.Put(first, valueOf(first, 1), nil)
		into, found := [][]byte{make([]byte, record.Size)}, []bool{true}
		if made.GetBatch([]uint64{key}, into, found); found[0] {
			t.Fatalf("key %d was not put, but %d was", key, first)
		}
		model[key] = 2
		_ = made.Put(key, valueOf(key, 2), nil)
		for key, version := range model {
			made.GetBatch([]uint64{key}, into, found)
			if !found[0] || !bytes.Equal(into[0], valueOf(key, version)) {
				t.Fatalf("key %d: found %v", key, found[0])
			}
		}
	}
	if pairs == 0 {
		t.Fatal("no pair was found, so that nothing was tested")
	}
}

func TestATableThatIsFullKeepsAndOverwrites(t *testing.T) {
	made := newTable(t, 100, 16)
	stored := uint64(0)
	for key := range uint64(200) {
		if err := made.Put(key, valueOf(key, 0), nil); err == nil {
			stored++
		} else if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	if stored != 100 || made.Len() != 100 {
		t.Errorf("%d records stored, %d there; wanted 100", stored, made.Len())
	}
	if err := made.Put(5, valueOf(5, 1), nil); err != nil {
		t.Errorf("an overwrite was refused: %v", err)
	}
}

func TestAPutThatTheLogRefusesChangesNothing(t *testing.T) {
	made := newTable(t, 100, 1)
	refusal := errors.New("no log")
	refuse := func(uint64, []byte) error { return refusal }
	if err := made.Put(1, valueOf(1, 0), refuse); !errors.Is(err, refusal) {
		t.Errorf("error %v", err)
	}
	into := make([]byte, record.Size)
	if made.Get(1, into) || made.Len() != 0 {
		t.Error("the record is there")
	}
	_ = made.Put(1, valueOf(1, 0), nil)
	_ = made.Put(1, valueOf(1, 1), refuse)
	if made.Get(1, into); !bytes.Equal(into, valueOf(1, 0)) {
		t.Error("the record was overwritten")
	}
}

// TestReadersSeeWholeRecords lets readers and a walk look on while writers overwrite and the indexes grow.
func TestReadersSeeWholeRecords(t *testing.T) {
	const keys = 3_000
	made := newTable(t, keys, 4)
	var writers, others sync.WaitGroup
	done := make(chan struct{})
	for number := range uint64(2) {
		writers.Go(func() {
			for version := range uint64(4) {
				for key := number; key < keys; key += 2 {
					if err := made.Put(key, valueOf(key, version), nil); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	isWhole := func(key uint64, value []byte) bool {
		version := binary.LittleEndian.Uint64(value) - key*0x9e3779b97f4a7c15
		return version < 4 && bytes.Equal(value, valueOf(key, version))
	}
	others.Go(func() {
		into := make([]byte, record.Size)
		for key := uint64(0); ; key = (key + 1) % keys {
			select {
			case <-done:
				return
			default:
			}
			if made.Get(key, into) && !isWhole(key, into) {
				t.Errorf("key %d: a torn value", key)
				return
			}
		}
	})
	others.Go(func() {
		for range 5 {
			_ = made.Walk(func(keys []uint64, values []byte) error {
				for number, key := range keys {
					if !isWhole(key, values[number*record.Size:][:record.Size]) {
						t.Errorf("walk, key %d: a torn value", key)
					}
				}
				return nil
			})
		}
	})
	writers.Wait()
	close(done)
	others.Wait()
}

func TestGetsAndOverwritesAllocateNothing(t *testing.T) {
	made := newTable(t, 1_000, 4)
	value, into := valueOf(7, 0), make([]byte, record.Size)
	keys, places, found := []uint64{7, 8}, [][]byte{into, into}, make([]bool, 2)
	_ = made.Put(7, value, nil)
	for name, operation := range map[string]func(){
		"get":   func() { made.Get(7, into) },
		"batch": func() { made.GetBatch(keys, places, found) },
		"put":   func() { _ = made.Put(7, value, nil) },
	} {
		if allocations := testing.AllocsPerRun(100, operation); allocations != 0 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
}

// TestMemoryIsBounded: beyond 125 records of a shard, while indexes grow too, and by the table's own count.
func TestMemoryIsBounded(t *testing.T) {
	const records = 40_000
	value := make([]byte, record.Size)
	for _, shards := range []int{1, 8, 256} {
		made := newTable(t, records, shards)
		for key := range records {
			_ = made.Put(uint64(key), value, nil)
			payload := (key + 1) * record.Size
			if key%(1+shards/4) == 0 && key >= 125*shards && float64(made.Bytes()) > 1.25*float64(payload) {
				t.Fatalf("%d shards: %d bytes for %d records: %.3f of the payload",
					shards, made.Bytes(), key+1, float64(made.Bytes())/float64(payload))
			}
		}
	}
}

// TestTheHeapHoldsTheIndexesAlone compares Go's heap before and after.
func TestTheHeapHoldsTheIndexesAlone(t *testing.T) {
	const records = 50_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	made := newTable(t, records, 8)
	value := make([]byte, record.Size)
	for key := range uint64(records) {
		_ = made.Put(key, value, nil)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int(after.HeapAlloc) - int(before.HeapAlloc); grown > 50*records {
		t.Errorf("the heap grew by %d bytes for %d records", grown, records)
	}
	runtime.KeepAlive(made)
}

func TestWhatATableRefuses(t *testing.T) {
	for _, wrong := range [][2]int{{0, 1}, {MaxRecords + 1, 1}, {1, 0}, {1, MaxShards + 1}} {
		if made, err := New(wrong[0], wrong[1]); err == nil {
			made.Close()
			t.Errorf("%d records in %d shards: allowed", wrong[0], wrong[1])
		}
	}
}

// BenchmarkTable tells processor time, because others may work on the machine.
func BenchmarkTable(b *testing.B) {
	const records, run = 1_000_000, 16
	made := newTable(b, records, 256)
	value := make([]byte, record.Size)
	for key := range uint64(records) {
		_ = made.Put(key, value, nil)
	}
	random := rand.New(rand.NewPCG(1, 1))
	keys, into, found := make([]uint64, run), make([][]byte, run), make([]bool, run)
	out := make([]byte, run*record.Size)
	for i := range into {
		into[i] = out[i*record.Size:][:record.Size]
	}
	for name, operation := range map[string]func(){
		"get": func() {
			for i, key := range keys {
				made.Get(key, into[i])
			}
		},
		"get at once": func() { made.GetBatch(keys, into, found) },
		"put": func() {
			for i, key := range keys {
				_ = made.Put(key, into[i], nil)
			}
		},
		"put fetched": func() {
			made.Fetch(keys)
			for i, key := range keys {
				_ = made.Put(key, into[i], nil)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			start := processorTime()
			for b.Loop() {
				for i := range keys {
					keys[i] = random.Uint64N(records)
				}
				operation()
			}
			b.ReportMetric(float64(processorTime()-start)/float64(b.N*run), "cpu-ns/key")
		})
	}
}

func processorTime() int64 {
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &used)
	return used.Utime.Nano() + used.Stime.Nano()
}
