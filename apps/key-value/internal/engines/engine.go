// Package engines has everything that can keep the records: one engine, one file, chosen by name at the start.
package engines

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ErrFull says that a new key was refused, because the engine holds as many records as it may.
var ErrFull = errors.New("there is no room for a new key")

// errClosed says that an engine has been closed.
var errClosed = errors.New("the engine is closed")

// Engine keeps records. It is safe for use by several goroutines. A get may see a put that is not committed yet.
type Engine interface {
	// Get copies the value of each key into the slice with its number, of length record.Size, and says which were found.
	Get(keys []uint64, into [][]byte, found []bool) error
	// Put stores values in their order and says how many: all of them, unless there is an error. The values are the
	// caller's again afterwards.
	Put(keys []uint64, values [][]byte) (stored int, err error)
	// Commit returns when all that was put before is as durable as the engine was asked to make it. Only then may a put
	// be acknowledged. After an error nobody knows what is durable, and the engine takes no more puts.
	Commit() error
	// CommitsAtOnce says that Commit never has anything to do, so that a put may be acknowledged without it. It is the
	// same as long as the engine is open.
	CommitsAtOnce() bool
	// Stats is its state, for people and for tools that read JSON. It may be asked for during Close and after it.
	Stats() Stats
	// Close ends it. What was put and not committed may be lost.
	Close() error
}

// Stats is the state of an engine. What an engine does not know is 0.
type Stats struct {
	Engine  string `json:"engine"`
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"` // memory that the records take, with what finds them

	Snapshots         int64   `json:"snapshots"`           // written since the start
	SnapshotSeconds   float64 `json:"snapshot_seconds"`    // that the last one took
	SnapshotFailures  int64   `json:"snapshot_failures"`   // since the start
	LogBytes          int64   `json:"log_bytes"`           // to be replayed at the next start
	LogGroups         int64   `json:"log_groups"`          // writes to the log since the start
	LogSyncs          int64   `json:"log_syncs"`           // of the log to the device since the start
	RecoveredRecords  int64   `json:"recovered_records"`   // from the snapshot
	RecoveredPuts     int64   `json:"recovered_puts"`      // from the log
	RecoveredTornTail int64   `json:"recovered_torn_tail"` // bytes cut off the end of the log
	Problem           string  `json:"problem,omitempty"`   // that puts are refused for
}

// Options are what an engine may be told; each takes what concerns it.
type Options struct {
	Records   int    // table: most records
	Shards    int    // table: parts with a lock of their own
	Directory string // table, pebble: where data are kept; empty: table keeps nothing, pebble refuses
	// Fsync is always, interval, never or off (no log); of the table and pebble. Pebble keeps the last block of its log,
	// of 32 KiB, in the process until it is full or synced (pebble.WriteOptions.Sync): with never, and within an
	// interval, a kill of the process loses the puts in it.
	Fsync            string
	FsyncInterval    time.Duration // with interval: most time between an acknowledgement and the device
	SnapshotInterval time.Duration // table: between the beginnings of snapshots; 0: none but on demand
	Address          string        // redis, memcached: of the server
	Connections      int           // redis, memcached: kept to it
	CacheBytes       int64         // pebble: of blocks in memory
}

// open makes an engine; ctx bounds the opening.
type open func(ctx context.Context, options Options) (Engine, error)

var known = map[string]open{}

// Names are those of all engines.
func Names() []string { return slices.Sorted(maps.Keys(known)) }

// Open makes the engine with the given name.
func Open(ctx context.Context, name string, options Options) (Engine, error) {
	opening, isKnown := known[name]
	if !isKnown {
		return nil, fmt.Errorf("unknown engine %q; known are %s", name, strings.Join(Names(), ", "))
	}
	engine, err := opening(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", name, err)
	}
	return engine, nil
}
