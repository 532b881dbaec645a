package durable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tailor/apps/key-value/internal/disk/disktest"
	"tailor/apps/key-value/internal/journal"
	"tailor/apps/key-value/internal/record"
	"tailor/apps/key-value/internal/snapshot"
)

// never is an interval in which no test ends, so that only the test syncs.
const never = time.Hour

func options(policy journal.Policy) Options {
	return Options{
		Records: 200, Shards: 4, Log: true, Fsync: policy, FsyncInterval: never,
		GroupBytes: 5 * record.PairSize, Now: time.Now,
	}
}

func valueOf(put uint64) []byte {
	value := make([]byte, record.Size)
	for at := 0; at < record.Size; at += 8 {
		binary.LittleEndian.PutUint64(value[at:], put+uint64(at)<<32)
	}
	return value
}

// history is every put so far, by its number less one.
type history []uint64 // keys

// check compares the table with what it was after some number of puts.
func (h history) check(t *Table) error {
	model := map[uint64]uint64{}
	for i, key := range h {
		model[key] = uint64(i) + 1
	}
	if t.Len() != len(model) {
		return fmt.Errorf("%d records, wanted %d", t.Len(), len(model))
	}
	into := make([]byte, record.Size)
	for key, put := range model {
		if !t.Get(key, into) || !bytes.Equal(into, valueOf(put)) {
			return fmt.Errorf("key %d is not as put %d left it, but as %d", key, put, binary.LittleEndian.Uint64(into))
		}
	}
	return nil
}

// life is a table between two losses of power.
type life struct {
	t       *testing.T
	random  *rand.Rand
	disk    *disktest.Disk
	table   *Table
	puts    history
	acked   int // puts, that no kill may take
	synced  int // puts that no loss of power may take
	options Options
}

func (l *life) put() error {
	key := l.random.Uint64N(60)
	if err := l.table.Put(key, valueOf(uint64(len(l.puts)+1))); err != nil {
		return err
	}
	l.puts = append(l.puts, key)
	return nil
}

func (l *life) commit() error {
	if err := l.table.Commit(); err != nil {
		return err
	}
	l.acked = len(l.puts)
	if l.options.Fsync == journal.Always {
		l.synced = l.acked
	}
	return nil
}

func (l *life) sync() error {
	l.table.log.Sync()
	if err := l.table.log.Failure(); err != nil {
		return err
	}
	l.synced = l.acked
	return nil
}

// takeSnapshot takes one with puts between its records.
func (l *life) takeSnapshot() error {
	l.table.walk = func(visit func(keys []uint64, values []byte) error) error {
		return l.table.Walk(func(keys []uint64, values []byte) error {
			for range l.random.IntN(4) {
				if err := l.put(); err != nil {
					return err
				}
			}
			return visit(keys, values)
		})
	}
	return l.table.Snapshot()
}

func (l *life) step() error {
	switch l.random.IntN(12) {
	case 0:
		return l.takeSnapshot()
	case 1, 2:
		return l.sync()
	case 3, 4, 5, 6:
		return l.commit()
	default:
		return l.put()
	}
}

// TestNothingDurableIsLost ends tables at every kind of moment, by power and by kill, over several lives of each disk.
func TestNothingDurableIsLost(t *testing.T) {
	policies := []journal.Policy{journal.Always, journal.Interval, journal.Never}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		l := &life{t: t, random: random, disk: disktest.New(random), options: options(policies[seed%3])}
		for number := range 6 {
			if err := l.live(); err != nil {
				t.Fatalf("seed %d, life %d, %s: %v", seed, number, l.options.Fsync, err)
			}
		}
	}
}

// live opens the table, checks it, works until its end, and finds the disk again.
func (l *life) live() (err error) {
	if l.random.IntN(4) == 0 { // in the middle of the start, perhaps
		l.disk.LosePowerAfter(l.random.IntN(8))
	}
	l.table, err = Open(l.disk, l.options)
	if errors.Is(err, disktest.ErrNoPower) {
		l.findDisk()
		return nil
	}
	if err != nil {
		return err
	}
	if err := l.recovered(); err != nil {
		return err
	}
	if l.random.IntN(8) > 0 {
		l.disk.LosePowerAfter(l.random.IntN(60))
	}
	for range 80 {
		if err = l.step(); err != nil {
			break
		}
	}
	switch {
	case err != nil && !errors.Is(err, disktest.ErrNoPower):
		return err
	case err == nil && l.random.IntN(2) == 0: // it ends in peace
		if err := l.table.Close(); errors.Is(err, disktest.ErrNoPower) {
			break
		} else if err != nil {
			return err
		}
		l.acked, l.synced = len(l.puts), len(l.puts)
	default:
		l.abandon()
	}
	l.findDisk()
	return nil
}

// findDisk is after the end of a process, or of the machine: only then what was acknowledged may be gone.
func (l *life) findDisk() {
	if l.random.IntN(3) == 0 {
		l.disk = l.disk.Kill()
	} else {
		l.disk, l.acked = l.disk.Restart(), l.synced
	}
}

// recovered checks that the table is as it was after some put, and after which.
func (l *life) recovered() error {
	count := int(l.table.last)
	if count < l.acked || count > len(l.puts) {
		return fmt.Errorf("%d puts are there, %d were made, %d must be there", count, len(l.puts), l.acked)
	}
	l.puts = l.puts[:count]
	l.acked, l.synced = count, count // a start makes durable what it finds
	return l.puts.check(l.table)
}

// abandon ends a table as a kill of its process would: nothing more reaches the disk, whose Kill the next one finds.
func (l *life) abandon() {
	l.disk.LosePowerAfter(0)
	_ = l.table.Close()
}

func TestAFailingDeviceStopsPutsForGood(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	l := &life{t: t, random: random, disk: disktest.New(random), options: options(journal.Always)}
	l.table, _ = Open(l.disk, l.options)
	_ = l.put()
	if err := l.commit(); err != nil {
		t.Fatal(err)
	}
	l.disk.Fail(true)
	_ = l.put()
	if err := l.commit(); !errors.Is(err, disktest.ErrDevice) {
		t.Fatalf("commit: %v", err)
	}
	l.disk.Fail(false)
	if err := l.put(); !errors.Is(err, disktest.ErrDevice) {
		t.Errorf("a put after it: %v", err)
	}
	if err := l.table.Snapshot(); !errors.Is(err, disktest.ErrDevice) {
		t.Errorf("a snapshot after it: %v", err)
	}
	if l.table.State().Failure == nil || l.table.State().Failures != 1 {
		t.Errorf("state %+v", l.table.State())
	}
	l.disk = l.disk.Kill()
	if l.table, _ = Open(l.disk, l.options); l.table == nil || l.puts[:1].check(l.table) != nil {
		t.Error("the put that was acknowledged is not there")
	}
}

// TestDamageIsNotTakenForATornEnd changes each part of the files in turn: a start must refuse, or lose no durable put.
func TestDamageIsNotTakenForATornEnd(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	l := &life{t: t, random: random, disk: disktest.New(random), options: options(journal.Always)}
	l.table, _ = Open(l.disk, l.options)
	for range 5 {
		_ = l.put()
	}
	if err := l.takeSnapshot(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		_ = l.put()
		if err := l.commit(); err != nil {
			t.Fatal(err)
		}
	}
	l.abandon()
	names, _ := l.disk.List()
	for _, name := range names {
		size := l.disk.Size(name)
		for at := 0; at < size; at += 97 {
			damaged := l.disk.Kill()
			damaged.Damage(name, at)
			found, err := Open(damaged, l.options)
			if err == nil {
				// Of the last block nobody can know whether it was finished; it alone may be gone.
				if lost := len(l.puts) - int(found.last); lost > 1 {
					t.Errorf("%s, byte %d of %d: %d puts are gone, and nothing was said", name, at, size, lost)
				}
				_ = found.Close()
				continue
			}
			var log *journal.DamageError
			var whole *snapshot.DamageError
			if !errors.As(err, &log) && !errors.As(err, &whole) {
				t.Errorf("%s, byte %d: %v", name, at, err)
			}
		}
	}
}

func TestAMissingLogIsDamage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	l := &life{t: t, random: random, disk: disktest.New(random), options: options(journal.Always)}
	for range 3 { // a log for each start
		l.table, _ = Open(l.disk, l.options)
		_ = l.put()
		if err := l.commit(); err != nil {
			t.Fatal(err)
		}
		l.abandon()
		l.disk = l.disk.Kill()
	}
	_ = l.disk.Remove(journal.FileName(2))
	var damage *journal.DamageError
	if _, err := Open(l.disk, l.options); !errors.As(err, &damage) {
		t.Errorf("error %v", err)
	}
}
