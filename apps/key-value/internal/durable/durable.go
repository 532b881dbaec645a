// Package durable keeps a table on a disk: a snapshot now and then, and a log of the puts since.
//
// Snapshot g stands for the logs before generation g. It is taken while the table is in use: the log is rotated to
// generation g first, so that a record is in the snapshot as it was at some moment after that, and replaying log g over
// it puts it right; all puts that the snapshot may have seen are on the device before it counts. Only when its name is
// durable are the older one and the logs before g removed; so at any moment there is one from which, with the logs that
// are there, everything can be had.
package durable

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tailor/apps/key-value/internal/disk"
	"tailor/apps/key-value/internal/journal"
	"tailor/apps/key-value/internal/snapshot"
	"tailor/apps/key-value/internal/table"
)

// Options say how a table is kept.
type Options struct {
	Records, Shards  int  // of the table
	Log              bool // false: what was put after the last snapshot is lost with the process
	Fsync            journal.Policy
	FsyncInterval    time.Duration
	GroupBytes       int              // room for puts that the log has not written yet
	SnapshotInterval time.Duration    // between the beginnings of snapshots; 0: none by itself
	MostLogBytes     int64            // a snapshot begins earlier when logs are longer than this, and the table; 0: none
	Now              func() time.Time // the clock
}

// ErrClosed says that a table takes no more snapshots.
var ErrClosed = errors.New("the table is closed")

// Table is a table with its disk. It is safe for use by several goroutines until it is closed; Snapshot and State also
// while that is done, and afterwards.
type Table struct {
	*table.Table
	disk    disk.Disk
	options Options
	log     *journal.Log
	append  table.Change // of log; nil without one
	walk    func(visit func(keys []uint64, values []byte) error) error

	recovered Recovered
	stop      chan struct{}
	running   sync.WaitGroup

	mutex      sync.Mutex // of one snapshot at a time, and of what follows
	generation uint64     // of the newest snapshot or log
	last       uint64     // without a log: number of the last put, always that of the start
	closed     bool

	older               atomic.Int64 // bytes of the logs before the current one that the next start would replay
	snapshots, failures atomic.Int64
	took                atomic.Int64 // the last snapshot [ns]
}

// Recovered is what was found at the start.
type Recovered struct {
	Records int64 // of the snapshot
	Puts    int64 // of the logs
	Torn    int64 // bytes cut off the newest log
}

// Open reads what is on the disk and goes on from there. The disk is closed with the table.
func Open(on disk.Disk, options Options) (*Table, error) {
	memory, err := table.New(options.Records, options.Shards)
	if err != nil {
		return nil, errors.Join(err, on.Close())
	}
	t := &Table{Table: memory, disk: on, options: options, stop: make(chan struct{})}
	t.walk = memory.Walk
	if err := t.open(); err != nil {
		memory.Close()
		return nil, errors.Join(err, on.Close())
	}
	if options.SnapshotInterval > 0 {
		t.running.Go(t.snapshotRegularly)
	}
	return t, nil
}

func (t *Table) open() (err error) {
	if err := t.recover(); err != nil {
		return err
	}
	if !t.options.Log {
		return nil
	}
	options := journal.Options{
		Policy: t.options.Fsync, Interval: t.options.FsyncInterval, GroupBytes: t.options.GroupBytes, Now: t.options.Now,
	}
	t.generation++
	if t.log, err = journal.Create(t.disk, t.generation, t.last, options); err != nil {
		return err
	}
	t.append = t.log.Append
	return nil
}

// recover loads the newest snapshot and replays the logs since.
func (t *Table) recover() error {
	names, err := t.disk.List()
	if err != nil {
		return err
	}
	for _, name := range snapshot.Partial(names) {
		if err := t.disk.Remove(name); err != nil {
			return err
		}
	}
	snapshots, logs := snapshot.Generations(names), journal.Generations(names)
	first := uint64(1) // log that is to be replayed
	if len(snapshots) > 0 {
		newest := snapshots[len(snapshots)-1]
		header, err := snapshot.Read(t.disk, newest, t.load)
		if err != nil {
			return err
		}
		t.generation, t.last, first = newest, header.Last, newest
	}
	for _, generation := range logs {
		if generation < first {
			continue // of an older snapshot, and about to be removed when the process ended
		}
		if err := t.replay(generation, generation == logs[len(logs)-1]); err != nil {
			return err
		}
	}
	// The process may have been killed after it gave the snapshot its name, and before that name was durable.
	if err := t.disk.Sync(); err != nil {
		return err
	}
	return t.removeBefore(first)
}

func (t *Table) load(keys []uint64, values []byte) error {
	size := len(values) / len(keys)
	for number, key := range keys {
		if err := t.Table.Put(key, values[number*size:(number+1)*size], nil); err != nil {
			return err
		}
	}
	t.recovered.Records += int64(len(keys))
	return nil
}

func (t *Table) replay(generation uint64, isNewest bool) error {
	replayed, err := journal.Replay(t.disk, generation, t.last, isNewest, func(key uint64, value []byte) error {
		return t.Table.Put(key, value, nil)
	})
	if err != nil {
		return err
	}
	if replayed.Torn > 0 {
		slog.Warn("the log's end is cut off", "file", journal.FileName(generation), "bytes", replayed.Torn)
	}
	// The next log goes on behind these puts. A killed process may have left the last of them in the operating system's
	// memory only, so that they are made durable even where nothing is cut off; older logs were when they ended.
	if isNewest {
		if err := t.disk.Truncate(journal.FileName(generation), replayed.End); err != nil {
			return err
		}
	}
	t.older.Add(replayed.End)
	t.recovered.Puts += replayed.Puts
	t.recovered.Torn += replayed.Torn
	t.generation, t.last = generation, replayed.Last
	return nil
}

// removeBefore removes snapshots and logs of earlier generations.
func (t *Table) removeBefore(generation uint64) error {
	names, err := t.disk.List()
	if err != nil {
		return err
	}
	for _, old := range snapshot.Generations(names) {
		if old < generation {
			err = errors.Join(err, t.disk.Remove(snapshot.FileName(old)))
		}
	}
	for _, old := range journal.Generations(names) {
		if old < generation {
			err = errors.Join(err, t.disk.Remove(journal.FileName(old)))
		}
	}
	return err
}

// Put stores a value; it is durable after Commit.
func (t *Table) Put(key uint64, value []byte) error { return t.Table.Put(key, value, t.append) }

// Commit returns when all puts that have returned are as durable as the options say.
func (t *Table) Commit() error {
	if t.log == nil {
		return nil
	}
	return t.log.Commit()
}

// CommitsAtOnce says that there is no log, so that Commit has nothing to do.
func (t *Table) CommitsAtOnce() bool { return t.log == nil }

// Snapshot writes one now.
func (t *Table) Snapshot() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.closed {
		return ErrClosed
	}
	begin := t.options.Now()
	err := t.snapshot()
	if err != nil {
		t.failures.Add(1)
		return fmt.Errorf("snapshot: %w", err)
	}
	t.took.Store(int64(t.options.Now().Sub(begin)))
	t.snapshots.Add(1)
	return nil
}

func (t *Table) snapshot() error {
	header := snapshot.Header{Generation: t.generation + 1, Last: t.last}
	if t.log != nil {
		ended, err := t.log.Rotate()
		if err != nil {
			return err
		}
		header = snapshot.Header{Generation: ended.Generation + 1, Last: ended.Last}
		t.older.Add(ended.Bytes)
	}
	t.generation = header.Generation
	if err := snapshot.Write(t.disk, header, t.records); err != nil {
		return err
	}
	t.older.Store(0)
	return t.removeBefore(header.Generation)
}

// records yields all records of a snapshot. Those that were put meanwhile must not be in it without the puts between:
// so the log has all of them on the device before the snapshot counts.
func (t *Table) records(visit func(keys []uint64, values []byte) error) error {
	if err := t.walk(visit); err != nil || t.log == nil {
		return err
	}
	return t.log.Persist()
}

// lookEvery is how often the length of the log is looked at.
const lookEvery = time.Second

func (t *Table) snapshotRegularly() {
	regular := time.NewTicker(t.options.SnapshotInterval)
	defer regular.Stop()
	look := time.NewTicker(min(lookEvery, t.options.SnapshotInterval))
	defer look.Stop()
	mayBeEarly := true // not after a failure, which would be repeated all the time
	for {
		select {
		case <-t.stop:
			return
		case <-look.C:
			if !mayBeEarly || !t.isLogLong() {
				continue
			}
		case <-regular.C:
		}
		err := t.Snapshot()
		if mayBeEarly = err == nil; !mayBeEarly {
			slog.Error("the snapshot before stays", "error", err)
		}
	}
}

// isLogLong says whether there is more to be replayed at the next start than the options allow, and than the table has.
func (t *Table) isLogLong() bool {
	return t.options.MostLogBytes > 0 && t.State().LogBytes > max(t.options.MostLogBytes, int64(t.Bytes()))
}

// State is what a table tells of its disk.
type State struct {
	Recovered
	Snapshots, Failures int64
	Took                time.Duration // the last snapshot
	Log                 journal.Counts
	LogBytes            int64 // of all logs that the next start would replay
	Failure             error // why puts are refused
}

// State is the state now.
func (t *Table) State() State {
	s := State{
		Recovered: t.recovered,
		Snapshots: t.snapshots.Load(),
		Failures:  t.failures.Load(),
		Took:      time.Duration(t.took.Load()),
		LogBytes:  t.older.Load(),
	}
	if t.log != nil {
		s.Log, s.Failure = t.log.Counts(), t.log.Failure()
		s.LogBytes += s.Log.Bytes
	}
	return s
}

// Close makes everything durable, without a log by a last snapshot, and gives the memory back.
func (t *Table) Close() error {
	close(t.stop)
	t.running.Wait()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.closed = true
	var err error
	if t.log != nil {
		err = t.log.Close()
	} else {
		err = t.snapshot()
	}
	err = errors.Join(err, t.disk.Close())
	t.Table.Close()
	return err
}
