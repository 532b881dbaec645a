package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"tailor/apps/key-value/internal/disk"
	"tailor/apps/key-value/internal/record"
)

// Policy says when a put is durable.
type Policy string

// The policies, by how much a loss of power may take. What was acknowledged survives the end of the process with each.
const (
	Always   Policy = "always"   // nothing: an acknowledgement waits for the device
	Interval Policy = "interval" // the acknowledgements of one interval
	Never    Policy = "never"    // what the operating system had not written yet
)

// GroupBytes is room for the puts that wait: 4,000, so those of 400,000 per second for 10 ms.
const GroupBytes = 4 << 20

// ErrClosed says that the log takes no more puts.
var ErrClosed = errors.New("the log is closed")

// Options say how a log works.
type Options struct {
	Policy     Policy
	Interval   time.Duration    // of Interval
	GroupBytes int              // room for the puts that wait, of which there is twice as much; for one put at least
	Now        func() time.Time // the clock
}

// Log is the log that is being written. It is safe for use by several goroutines.
type Log struct {
	disk    disk.Disk
	options Options

	mutex   sync.Mutex
	changed sync.Cond // of anything below
	file    disk.File
	// The group that waits, and the room for the next one. One goroutine at a time, the leader, takes the group to the
	// file, while others fill the next.
	group, spare []byte
	leading      bool
	syncing      bool

	generation     uint64
	appended       uint64    // number of the last put in the group
	written        uint64    // ... in the file
	synced         uint64    // ... on the device
	bytes          int64     // of the file
	unsynced       time.Time // when the first put was written that no sync covers; zero: there is none
	unsyncedBefore time.Time // the same for the sync under way
	failure        error
	groups, syncs  int64
	stop, stopped  chan struct{}
}

// Counts are what a log has done.
type Counts struct {
	Bytes         int64 // of the file of this generation
	Groups, Syncs int64 // since the log was made
}

// Create begins a log in a new file, whose first put has the number after last.
func Create(on disk.Disk, generation, last uint64, options Options) (*Log, error) {
	switch options.Policy {
	case Always, Never:
	case Interval:
		if options.Interval <= 0 {
			return nil, fmt.Errorf("interval %v: allowed is more than 0", options.Interval)
		}
	default:
		return nil, fmt.Errorf("policy %q: allowed are %s, %s, %s", options.Policy, Always, Interval, Never)
	}
	if options.GroupBytes < 0 || options.GroupBytes > MostGroupBytes {
		return nil, fmt.Errorf("%d bytes of a group: allowed is 0 to %d", options.GroupBytes, MostGroupBytes)
	}
	l := &Log{disk: on, options: options, generation: generation, appended: last, written: last, synced: last}
	l.changed.L = &l.mutex
	l.group, l.spare = newGroup(options.GroupBytes), newGroup(options.GroupBytes)
	l.stop, l.stopped = make(chan struct{}), make(chan struct{})
	var err error
	if l.file, err = create(on, generation); err != nil {
		return nil, err
	}
	if options.Policy == Interval {
		go l.syncRegularly()
	} else {
		close(l.stopped)
	}
	return l, nil
}

func newGroup(bytes int) []byte {
	return make([]byte, blockHeader, blockHeader+max(bytes, record.PairSize))
}

func create(on disk.Disk, generation uint64) (disk.File, error) {
	file, err := on.Create(FileName(generation))
	if err != nil {
		return nil, err
	}
	return file, on.Sync()
}

// Append adds a put to the group that waits. It waits itself while that is full.
func (l *Log) Append(key uint64, value []byte) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for l.failure == nil && len(l.group)+record.PairSize > cap(l.group) {
		l.lead(l.options.Policy == Always)
	}
	if l.failure != nil {
		return l.failure
	}
	l.group = binary.LittleEndian.AppendUint64(l.group, key)
	l.group = append(l.group, value...)
	l.appended++
	return nil
}

// Commit returns when all puts appended before are as durable as the policy says.
func (l *Log) Commit() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	wanted := l.appended
	for l.failure == nil && (l.written < wanted || l.options.Policy == Always && l.synced < wanted) {
		l.lead(l.options.Policy == Always)
	}
	for l.failure == nil && l.options.Policy == Interval && l.isOverdue() {
		l.changed.Wait()
	}
	return l.failure
}

// Persist returns when all puts appended before are on the device, whatever the policy says.
func (l *Log) Persist() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	wanted := l.appended
	for l.failure == nil && l.synced < wanted {
		l.lead(true)
	}
	return l.failure
}

// isOverdue says whether a put has waited for a sync longer than it may: until it is done, nothing is acknowledged.
func (l *Log) isOverdue() bool {
	oldest := l.unsyncedBefore
	if oldest.IsZero() {
		oldest = l.unsynced
	}
	return !oldest.IsZero() && l.options.Now().Sub(oldest) >= l.options.Interval
}

// lead takes the group to the file, or waits for whoever does.
func (l *Log) lead(sync bool) {
	if l.leading {
		l.changed.Wait()
		return
	}
	l.leading = true
	l.flush(sync, nil)
	l.leading = false
	l.changed.Broadcast()
}

// flush takes the group to the file, syncs it where that is asked for, and does what is to follow. The caller holds
// the mutex, which is let go of meanwhile, and has set leading.
func (l *Log) flush(sync bool, then func() error) {
	group, file := l.group, l.file
	first, last := l.written+1, l.appended
	generation, synced := l.generation, l.synced
	l.group, l.spare = l.spare, nil
	l.mutex.Unlock()
	var err error
	if last >= first {
		seal(group, generation, first, synced)
		_, err = file.Write(group)
	}
	if err == nil && sync {
		err = file.Sync()
	}
	if err == nil && then != nil {
		err = then()
	}
	l.mutex.Lock()
	l.spare = group[:blockHeader]
	if err != nil {
		l.fail(err)
		return
	}
	if last >= first {
		l.groups++
		l.bytes += int64(len(group))
		l.written = last
		if l.unsynced.IsZero() {
			l.unsynced = l.options.Now()
		}
	}
	if sync {
		l.synced, l.unsynced = last, time.Time{}
		l.syncs++
	}
}

func (l *Log) fail(err error) {
	if l.failure == nil {
		l.failure = fmt.Errorf("the log cannot be written: %w", err)
	}
}

// syncRegularly syncs twice in an interval, so that no put waits for longer unless the device takes half of it.
func (l *Log) syncRegularly() {
	defer close(l.stopped)
	ticker := time.NewTicker(max(l.options.Interval/2, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			l.Sync()
		}
	}
}

// Sync makes what is in the file durable, while others write to it.
func (l *Log) Sync() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for l.syncing {
		l.changed.Wait()
	}
	if l.failure != nil || l.synced == l.written {
		return
	}
	l.syncing = true
	covered, file := l.written, l.file
	l.unsyncedBefore, l.unsynced = l.unsynced, time.Time{}
	l.mutex.Unlock()
	err := file.Sync()
	l.mutex.Lock()
	l.syncing = false
	if err != nil {
		l.fail(err)
	} else {
		l.synced, l.unsyncedBefore = max(l.synced, covered), time.Time{}
		l.syncs++
	}
	l.changed.Broadcast()
}

// Ended is a file that no more puts go to.
type Ended struct {
	Generation uint64
	Last       uint64 // number of the last put in it, or before it
	Bytes      int64
}

// Rotate ends the file, with all of it on the device, and begins that of the next generation. Every put whose Append
// had returned before is in the ended files.
func (l *Log) Rotate() (Ended, error) {
	l.Sync() // most of it while others write
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for l.leading || l.syncing {
		l.changed.Wait()
	}
	if l.failure != nil {
		return Ended{}, l.failure
	}
	l.leading, l.syncing = true, true
	var next disk.File
	old := l.file
	l.flush(true, func() (err error) {
		if next, err = create(l.disk, l.generation+1); err == nil {
			err = old.Close()
		}
		return err
	})
	l.leading, l.syncing = false, false
	l.changed.Broadcast()
	if l.failure != nil {
		return Ended{}, l.failure
	}
	ended := Ended{l.generation, l.written, l.bytes}
	l.file, l.generation, l.bytes = next, l.generation+1, 0
	return ended, nil
}

// Close makes everything durable and ends the log.
func (l *Log) Close() error {
	if l.options.Policy == Interval {
		close(l.stop)
	}
	<-l.stopped
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for l.leading || l.syncing {
		l.changed.Wait()
	}
	if l.failure != nil {
		return errors.Join(l.failure, l.file.Close())
	}
	l.leading = true
	l.flush(true, nil)
	l.leading = false
	err := errors.Join(l.failure, l.file.Close())
	l.failure = ErrClosed
	l.changed.Broadcast()
	return err
}

// Counts are what the log has done.
func (l *Log) Counts() Counts {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return Counts{l.bytes, l.groups, l.syncs}
}

// Failure is why the log takes no more puts, if it does not.
func (l *Log) Failure() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.failure
}
