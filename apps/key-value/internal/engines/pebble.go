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

// pebbleEngine is a log-structured merge tree on an SSD (github.com/cockroachdb/pebble): more records than memory holds.
type pebbleEngine struct {
	store    *pebble.DB
	fsync    string
	interval time.Duration
	stop     chan struct{}
	running  sync.WaitGroup

	mutex    sync.Mutex
	unsynced time.Time // when the first put came that no sync covers; zero: there is none
	syncs    int64
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
	e.mutex.Lock()
	if e.unsynced.IsZero() {
		e.unsynced = time.Now()
	}
	e.mutex.Unlock()
	if err := batch.Commit(pebble.NoSync); err != nil {
		return 0, err
	}
	return len(keys), nil
}

func (e *pebbleEngine) Commit() error {
	switch e.fsync {
	case "always":
		return e.sync()
	case "interval":
		e.mutex.Lock()
		isOverdue := !e.unsynced.IsZero() && time.Since(e.unsynced) >= e.interval
		e.mutex.Unlock()
		if isOverdue {
			return e.sync()
		}
	}
	return nil
}

// sync makes what was put durable: an empty entry of the log does, because it stands behind the puts.
func (e *pebbleEngine) sync() error {
	e.mutex.Lock()
	before := e.unsynced
	e.unsynced = time.Time{}
	e.mutex.Unlock()
	if before.IsZero() && e.fsync != "always" {
		return nil
	}
	err := e.store.LogData(nil, pebble.Sync)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if err != nil {
		e.unsynced = before
		return err
	}
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
			if err := e.sync(); err != nil {
				slog.Error("pebble", "error", err)
			}
		}
	}
}

// Stats tells no number of records: a merge tree does not know it.
func (e *pebbleEngine) Stats() Stats {
	metrics := e.store.Metrics()
	e.mutex.Lock()
	defer e.mutex.Unlock()
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
	if e.fsync == logOff {
		if err := e.store.Flush(); err != nil {
			return errors.Join(err, e.store.Close())
		}
	}
	return e.store.Close()
}
