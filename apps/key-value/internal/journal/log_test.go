package journal

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tailor/apps/key-value/internal/disk"
	"tailor/apps/key-value/internal/disk/disktest"
	"tailor/apps/key-value/internal/record"
)

// gate is a disk whose syncs wait until they are let through.
type gate struct {
	disk.Disk
	closed  atomic.Bool
	arrived chan struct{}
	pass    chan struct{}
}

type gatedFile struct {
	disk.File
	gate *gate
}

func (g *gate) Create(name string) (disk.File, error) {
	file, err := g.Disk.Create(name)
	return gatedFile{file, g}, err
}

func (f gatedFile) Sync() error {
	if f.gate.closed.Load() {
		f.gate.arrived <- struct{}{}
		<-f.gate.pass
	}
	return f.File.Sync()
}

func newGate() *gate {
	on := disktest.New(rand.New(rand.NewPCG(1, 1)))
	return &gate{Disk: on, arrived: make(chan struct{}), pass: make(chan struct{})}
}

func newLog(t *testing.T, on disk.Disk, options Options) *Log {
	t.Helper()
	options.GroupBytes = 8 * record.PairSize
	if options.Now == nil {
		options.Now = time.Now
	}
	log, err := Create(on, 1, 0, options)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

var value = make([]byte, record.Size)

// TestPutsShareASync: those that come while one is under way are committed by the next one, all of them.
func TestPutsShareASync(t *testing.T) {
	on := newGate()
	log := newLog(t, on, Options{Policy: Always})
	on.closed.Store(true)
	var committed sync.WaitGroup
	var failed atomic.Bool
	put := func(key uint64) {
		if log.Append(key, value) != nil || log.Commit() != nil {
			failed.Store(true)
		}
	}
	committed.Go(func() { put(0) })
	<-on.arrived
	for key := range uint64(6) {
		if err := log.Append(key+1, value); err != nil {
			t.Fatal(err)
		}
		committed.Go(func() {
			if log.Commit() != nil {
				failed.Store(true)
			}
		})
	}
	on.closed.Store(false)
	on.pass <- struct{}{}
	committed.Wait()
	if counts := log.Counts(); failed.Load() || counts.Syncs != 2 || counts.Groups != 2 {
		t.Errorf("%+v for two groups, failed: %v", counts, failed.Load())
	}
}

// TestNothingIsAcknowledgedWhileASyncIsOverdue lets the clock pass the interval while the device hangs.
func TestNothingIsAcknowledgedWhileASyncIsOverdue(t *testing.T) {
	var clock atomic.Int64
	on := newGate()
	log := newLog(t, on, Options{
		Policy: Interval, Interval: time.Hour, Now: func() time.Time { return time.Unix(1, clock.Load()) },
	})
	if err := errors.Join(log.Append(1, value), log.Commit()); err != nil {
		t.Fatal(err)
	}
	on.closed.Store(true)
	syncing := make(chan struct{})
	go func() {
		log.Sync()
		close(syncing)
	}()
	<-on.arrived
	clock.Store(int64(59 * time.Minute))
	if err := errors.Join(log.Append(2, value), log.Commit()); err != nil {
		t.Fatal(err)
	}
	clock.Store(int64(time.Hour))
	committed := make(chan error)
	go func() { committed <- errors.Join(log.Append(3, value), log.Commit()) }()
	select {
	case err := <-committed:
		t.Fatalf("a put was acknowledged after an hour without a sync: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	on.closed.Store(false)
	on.pass <- struct{}{}
	<-syncing
	if err := <-committed; err != nil {
		t.Error(err)
	}
}

// TestAppendingGoesOnInTheNextFile rotates while puts come from several goroutines, and reads all files back.
func TestAppendingGoesOnInTheNextFile(t *testing.T) {
	on := disktest.New(rand.New(rand.NewPCG(1, 1)))
	log := newLog(t, on, Options{Policy: Never})
	const each, writers = 300, 3
	var running sync.WaitGroup
	for writer := range uint64(writers) {
		running.Go(func() {
			for key := range uint64(each) {
				if err := log.Append(writer*each+key, value); err != nil {
					t.Error(err)
				}
				if key%7 == 0 {
					_ = log.Commit()
				}
			}
		})
	}
	var ends []Ended
	for range 5 {
		ended, err := log.Rotate()
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, ended)
	}
	running.Wait()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(1, value); !errors.Is(err, ErrClosed) {
		t.Errorf("a put after the end: %v", err)
	}
	seen, last := map[uint64]bool{}, uint64(0)
	for generation := uint64(1); generation <= 6; generation++ {
		replayed, err := Replay(on, generation, last, generation == 6, func(key uint64, _ []byte) error {
			seen[key] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		last = replayed.Last
		if ended := (Ended{generation, last, replayed.End}); generation < 6 && ended != ends[generation-1] {
			t.Errorf("%+v was replayed, Rotate said %+v", ended, ends[generation-1])
		}
	}
	if len(seen) != each*writers || last != each*writers {
		t.Errorf("%d keys, last put %d; wanted %d", len(seen), last, each*writers)
	}
}

func TestWhatALogRefuses(t *testing.T) {
	for _, wrong := range []Options{
		{Policy: "sometimes"}, {Policy: Interval}, {}, {Policy: Never, GroupBytes: MostGroupBytes + 1},
	} {
		if _, err := Create(disktest.New(rand.New(rand.NewPCG(1, 1))), 1, 0, wrong); err == nil {
			t.Errorf("%+v: allowed", wrong)
		}
	}
}
