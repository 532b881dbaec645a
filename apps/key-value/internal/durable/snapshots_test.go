package durable

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"tailor/apps/key-value/internal/disk/disktest"
	"tailor/apps/key-value/internal/journal"
	"tailor/apps/key-value/internal/snapshot"
)

func TestWithoutALogTheLastSnapshotIsThere(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	l := &life{t: t, random: random, disk: disktest.New(random), options: options("")}
	l.options.Log = false
	var err error
	for range 3 {
		if l.table, err = Open(l.disk, l.options); err != nil {
			t.Fatal(err)
		}
		if err := l.puts.check(l.table); err != nil {
			t.Fatal(err)
		}
		for range 30 {
			_ = l.put()
		}
		if err := l.table.Snapshot(); err != nil {
			t.Fatal(err)
		}
		kept := len(l.puts)
		_ = l.put()
		l.abandon()
		l.disk, l.puts = l.disk.Kill(), l.puts[:kept]
	}
}

// TestOneSnapshotIsLeft and the log since, whatever was there before.
func TestOneSnapshotIsLeft(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	l := &life{t: t, random: random, disk: disktest.New(random), options: options(journal.Never)}
	for range 3 {
		var err error
		if l.table, err = Open(l.disk, l.options); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_ = l.put()
			if err := l.table.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		l.abandon()
		l.disk = l.disk.Kill()
	}
	names, _ := l.disk.List()
	if len(snapshot.Generations(names)) != 1 || len(journal.Generations(names)) != 1 || len(names) != 2 {
		t.Errorf("files %v", names)
	}
}

// TestLogsAreCountedUntilASnapshotReplacesThem: those of earlier starts, and those before a snapshot that failed.
func TestLogsAreCountedUntilASnapshotReplacesThem(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	l := &life{t: t, random: random, disk: disktest.New(random), options: options(journal.Always)}
	for range 3 {
		l.table, _ = Open(l.disk, l.options)
		for range 30 { // so that the logs of three starts are longer than the table
			if err := errors.Join(l.put(), l.commit()); err != nil {
				t.Fatal(err)
			}
		}
		l.table.walk = func(func([]uint64, []byte) error) error { return disktest.ErrDevice }
		if err := l.table.Snapshot(); !errors.Is(err, disktest.ErrDevice) {
			t.Fatalf("error %v", err)
		}
		_ = errors.Join(l.put(), l.commit())
		sizes := 0
		names, _ := l.disk.List()
		for _, generation := range journal.Generations(names) {
			sizes += l.disk.Size(journal.FileName(generation))
		}
		if told := l.table.State().LogBytes; told != int64(sizes) || sizes == 0 {
			t.Errorf("%d bytes are told, the logs have %d", told, sizes)
		}
		for most, isLong := range map[int64]bool{0: false, 1: l.table.Bytes() < sizes, 1 << 30: false} {
			if l.table.options.MostLogBytes = most; l.table.isLogLong() != isLong {
				t.Errorf("most %d: too long is %v", most, !isLong)
			}
		}
		l.abandon()
		l.disk = l.disk.Kill()
	}
	l.table, _ = Open(l.disk, l.options)
	if err := l.table.Snapshot(); err != nil || l.table.State().LogBytes != 0 {
		t.Errorf("%d bytes after a snapshot (%v)", l.table.State().LogBytes, err)
	}
	l.abandon()
}

// TestASnapshotAndTheEndOfATableWaitForEachOther: the one that comes later is done with what is left.
func TestASnapshotAndTheEndOfATableWaitForEachOther(t *testing.T) {
	for _, isLogged := range []bool{true, false} {
		random := rand.New(rand.NewPCG(1, 1))
		l := &life{t: t, random: random, disk: disktest.New(random), options: options(journal.Never)}
		l.options.Log = isLogged
		l.table, _ = Open(l.disk, l.options)
		_ = l.put()
		arrived, pass := make(chan struct{}, 2), make(chan struct{})
		l.table.walk = func(visit func(keys []uint64, values []byte) error) error {
			arrived <- struct{}{}
			<-pass
			return l.table.Walk(visit)
		}
		taken, closed := make(chan error), make(chan error)
		go func() { taken <- l.table.Snapshot() }()
		<-arrived
		go func() { closed <- l.table.Close() }()
		select {
		case err := <-closed:
			t.Fatalf("closed during a snapshot: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		close(pass)
		if err := errors.Join(<-taken, <-closed); err != nil {
			t.Error(err)
		}
		if err := l.table.Snapshot(); !errors.Is(err, ErrClosed) {
			t.Errorf("a snapshot afterwards: %v", err)
		}
	}
}
