package engines

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailor/apps/key-value/internal/record"
)

// newPebble is one whose puts are overdue at once, and which syncs when it is asked to.
func newPebble(t *testing.T, options pebble.Options) *pebbleEngine {
	t.Helper()
	store, err := pebble.Open("store", &options)
	if err != nil {
		t.Fatal(err)
	}
	e := &pebbleEngine{store: store, fsync: "interval", interval: 1, stop: make(chan struct{})}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *pebbleEngine) putOne() error {
	_, err := e.Put([]uint64{1}, [][]byte{make([]byte, record.Size)})
	return err
}

// TestAPutDuringASyncOfPebbleWaitsForTheNext, and is acknowledged only then.
func TestAPutDuringASyncOfPebbleWaitsForTheNext(t *testing.T) {
	e := newPebble(t, pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
	arrived, pass := make(chan struct{}), make(chan struct{})
	e.persist = func() error {
		arrived <- struct{}{}
		<-pass
		return e.store.LogData(nil, pebble.Sync)
	}
	commit := func() chan error {
		committed := make(chan error, 1)
		go func() { committed <- e.Commit() }()
		return committed
	}
	if err := e.putOne(); err != nil {
		t.Fatal(err)
	}
	first := commit()
	<-arrived
	if !e.isOverdue() {
		t.Error("the put that is being synced may be acknowledged")
	}
	if err := e.putOne(); err != nil {
		t.Fatal(err)
	}
	second := commit()
	select {
	case err := <-second:
		t.Fatalf("acknowledged during the sync: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	pass <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}
	<-arrived // of the second put
	pass <- struct{}{}
	if err := <-second; err != nil {
		t.Error(err)
	}
	if stats := e.Stats(); stats.LogSyncs != 2 {
		t.Errorf("%d syncs of two puts", stats.LogSyncs)
	}
}

// TestAPutThatPebbleDidNotTakeIsNotToBeSynced: what is counted before it is made, a sync before it would count off.
func TestAPutThatPebbleDidNotTakeIsNotToBeSynced(t *testing.T) {
	memory := vfs.NewMem()
	store, err := pebble.Open("store", &pebble.Options{FS: memory, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	e := newPebble(t, pebble.Options{FS: memory, Logger: quiet{}, ReadOnly: true})
	if err := e.putOne(); err == nil {
		t.Fatal("a store that may only be read took a put")
	}
	if e.isOverdue() {
		t.Error("there is a put to be synced")
	}
}
