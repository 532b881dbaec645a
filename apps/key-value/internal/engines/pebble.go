package engines

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

func init() { known["pebble"] = openPebble }

// pebbleEngine is a log-structured merge tree on a disk (github.com/cockroachdb/pebble), for more records than memory
// holds.
type pebbleEngine struct {
	store    *pebble.DB
	persist  func() error // makes everything before durable
	fsync    string
	interval time.Duration
	stop     chan struct{}
	running  sync.WaitGroup

	syncing  sync.Mutex // of one sync at a time, with an interval
	mutex    sync.Mutex // of what follows
	unsynced time.Time  // when the first put was made that no sync covers; zero: there is none
	underWay time.Time  // the same for the sync under way
	syncs    int64
	closed   bool
}

func openPebble(_ context.Context, options Options) (Engine, error) {
	if options.Directory == "" {
		return nil, errors.New("it needs a directory")
	}
	store, err := pebble.Open(options.Directory, &pebble.Options{
		CacheSize:  options.CacheBytes,
		DisableWAL: options.Fsync == logOff,
		Logger:     quiet{},
	})
	if err != nil {
		return nil, err
	}
	e := &pebbleEngine{store: store, fsync: options.Fsync, interval: options.FsyncInterval, stop: make(chan struct{})}
	// An empty entry of the log stands behind all puts, so that it is durable when they are.
	e.persist = func() error { return store.LogData(nil, pebble.Sync) }
	if e.fsync == "interval" {
		e.running.Go(e.syncRegularly)
	}
	return e, nil
}

// quiet says what is wrong and nothing else.
type quiet struct{}

func (quiet) Infof(string, ...any) {}

func (quiet) Errorf(format string, arguments ...any) {
	slog.Error("pebble", "error", fmt.Sprintf(format, arguments...))
}

// Fatalf is for a store that cannot be trusted any more: the next start reads what is on the device.
func (quiet) Fatalf(format string, arguments ...any) {
	slog.Error("pebble", "fatal", fmt.Sprintf(format, arguments...))
	os.Exit(1)
}

func (e *pebbleEngine) Get(keys []uint64, into [][]byte, found []bool) error {
	var name [8]byte
	for i, key := range keys {
		binary.BigEndian.PutUint64(name[:], key)
		value, closer, err := e.store.Get(name[:])
		if errors.Is(err, pebble.ErrNotFound) {
			found[i] = false
			continue
		}
		if err != nil {
			return err
		}
		copy(into[i], value)
		found[i] = true
		if err := closer.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Put stores all of the values or none.
func (e *pebbleEngine) Put(keys []uint64, values [][]byte) (int, error) {
	batch := e.store.NewBatch()
	defer batch.Close()
	var name [8]byte
	for i, key := range keys {
		binary.BigEndian.PutUint64(name[:], key)
		if err := batch.Set(name[:], values[i], nil); err != nil {
			return 0, err
		}
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		return 0, err
	}
	// Only now: a sync that began before may not cover it.
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.unsynced.IsZero() {
		e.unsynced = time.Now()
	}
	return len(keys), nil
}

func (e *pebbleEngine) Commit() error {
	switch {
	case e.fsync == "always":
		return e.sync()
	case e.fsync == "interval" && e.isOverdue():
		return e.syncPuts()
	}
	return nil
}

func (e *pebbleEngine) CommitsAtOnce() bool { return e.fsync != "always" && e.fsync != "interval" }

// isOverdue says whether a put has waited for a sync longer than it may.
func (e *pebbleEngine) isOverdue() bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	oldest := e.underWay
	if oldest.IsZero() {
		oldest = e.unsynced
	}
	return !oldest.IsZero() && time.Since(oldest) >= e.interval
}

// syncPuts syncs if there are puts to be synced, after the sync under way.
func (e *pebbleEngine) syncPuts() error {
	e.syncing.Lock()
	defer e.syncing.Unlock()
	e.mutex.Lock()
	e.underWay, e.unsynced = e.unsynced, time.Time{}
	isNeeded := !e.underWay.IsZero()
	e.mutex.Unlock()
	if !isNeeded {
		return nil
	}
	err := e.sync()
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if err != nil {
		e.unsynced = e.underWay
	}
	e.underWay = time.Time{}
	return err
}

func (e *pebbleEngine) sync() error {
	if err := e.persist(); err != nil {
		return err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.syncs++
	return nil
}

func (e *pebbleEngine) syncRegularly() {
	ticker := time.NewTicker(max(e.interval/2, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-ticker.C:
			if err := e.syncPuts(); err != nil {
				slog.Error("pebble", "error", err)
			}
		}
	}
}

// Stats tells no number of records: a merge tree does not know it.
func (e *pebbleEngine) Stats() Stats {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.closed {
		return Stats{Engine: "pebble", Problem: errClosed.Error()}
	}
	metrics := e.store.Metrics()
	return Stats{
		Engine:   "pebble",
		Bytes:    metrics.BlockCache.Size + int64(metrics.MemTable.Size),
		LogBytes: int64(metrics.WAL.Size),
		LogSyncs: e.syncs,
	}
}

func (e *pebbleEngine) Close() error {
	close(e.stop)
	e.running.Wait()
	e.mutex.Lock()
	defer e.mutex.Unlock() // a store must not be asked for anything while it closes (pebble.DB.Close)
	e.closed = true
	var err error
	if e.fsync == logOff {
		err = e.store.Flush()
	}
	return errors.Join(err, e.store.Close())
}
