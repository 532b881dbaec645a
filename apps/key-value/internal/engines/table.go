package engines

import (
	"context"
	"errors"
	"time"

	"tailor/apps/key-value/internal/disk"
	"tailor/apps/key-value/internal/durable"
	"tailor/apps/key-value/internal/journal"
	"tailor/apps/key-value/internal/table"
)

func init() { known["table"] = openTable }

// mostLogBytes is how long a log may become before a snapshot is taken early, unless the table is larger.
const mostLogBytes = 4 << 30

// logOff is the value of Options.Fsync with which there is no log.
const logOff = "off"

// tableEngine is the table in memory, on a disk where there is a directory.
type tableEngine struct {
	records *table.Table
	kept    *durable.Table // nil without a directory
}

func openTable(_ context.Context, options Options) (Engine, error) {
	if options.Directory == "" {
		records, err := table.New(options.Records, options.Shards)
		if err != nil {
			return nil, err
		}
		return &tableEngine{records: records}, nil
	}
	directory, err := disk.At(options.Directory)
	if err != nil {
		return nil, err
	}
	kept, err := durable.Open(directory, durable.Options{
		Records:          options.Records,
		Shards:           options.Shards,
		Log:              options.Fsync != logOff,
		Fsync:            journal.Policy(options.Fsync),
		FsyncInterval:    options.FsyncInterval,
		GroupBytes:       journal.GroupBytes,
		SnapshotInterval: options.SnapshotInterval,
		MostLogBytes:     mostLogBytes,
		Now:              time.Now,
	})
	if err != nil {
		return nil, err
	}
	return &tableEngine{records: kept.Table, kept: kept}, nil
}

func (e *tableEngine) Get(keys []uint64, into [][]byte, found []bool) error {
	e.records.GetBatch(keys, into, found)
	return nil
}

func (e *tableEngine) Put(keys []uint64, values [][]byte) (int, error) {
	if len(keys) > 1 {
		e.records.Fetch(keys)
	}
	for i, key := range keys {
		var err error
		if e.kept != nil {
			err = e.kept.Put(key, values[i])
		} else {
			err = e.records.Put(key, values[i], nil)
		}
		if err != nil {
			if errors.Is(err, table.ErrFull) {
				err = ErrFull
			}
			return i, err
		}
	}
	return len(keys), nil
}

func (e *tableEngine) Commit() error {
	if e.kept == nil {
		return nil
	}
	return e.kept.Commit()
}

func (e *tableEngine) CommitsAtOnce() bool { return e.kept == nil || e.kept.CommitsAtOnce() }

func (e *tableEngine) Stats() Stats {
	s := Stats{Engine: "table", Records: int64(e.records.Len()), Bytes: int64(e.records.Bytes())}
	if e.kept == nil {
		return s
	}
	state := e.kept.State()
	s.Snapshots, s.SnapshotFailures, s.SnapshotSeconds = state.Snapshots, state.Failures, state.Took.Seconds()
	s.LogBytes, s.LogGroups, s.LogSyncs = state.LogBytes, state.Log.Groups, state.Log.Syncs
	s.RecoveredRecords, s.RecoveredPuts, s.RecoveredTornTail = state.Records, state.Puts, state.Torn
	if state.Failure != nil {
		s.Problem = state.Failure.Error()
	}
	return s
}

// Snapshot writes all records to the disk now.
func (e *tableEngine) Snapshot() error {
	if e.kept == nil {
		return errors.New("the table has no directory")
	}
	return e.kept.Snapshot()
}

func (e *tableEngine) Close() error {
	if e.kept != nil {
		return e.kept.Close()
	}
	e.records.Close()
	return nil
}
