package server

import (
	"errors"
	"testing"

	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/wire"
)

// newTurn is a loop that does not run, over a table with room for one record, and a connection of it. atOnce is what the
// engine says of its commits.
func newTurn(t *testing.T, atOnce bool) (*loop, *fake, *connection) {
	t.Helper()
	table, err := engines.Open(t.Context(), "table", engines.Options{Records: 1, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	engine := &fake{Engine: table, atOnce: atOnce}
	l, err := newLoop(&Server{engine: engine, options: Options{Batch: 1, Buffer: minBuffer}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.close()
		_ = table.Close()
	})
	return l, engine, &connection{descriptor: -1}
}

// TestRefusedPutsDoNotWaitForACommit, which may never come: not one of so many that some are timed.
func TestRefusedPutsDoNotWaitForACommit(t *testing.T) {
	l, engine, c := newTurn(t, false)
	if _, err := engine.Put([]uint64{1}, [][]byte{valueOf(1, 1)}); err != nil {
		t.Fatal(err)
	}
	for range 3 * timedRuns {
		if _, alive := l.turn.answer(c, wire.AppendPut(nil, 1, wire.WithLatency, valueOf(2, 1), 2)); !alive || c.dirty {
			t.Fatalf("alive: %v, to be committed: %v", alive, c.dirty)
		}
		l.release(c)
	}
	if waiting := len(l.turn.uncommitted); waiting > 0 {
		t.Errorf("%d puts wait for a commit", waiting)
	}
	if puts := l.counters.puts.Load(); puts > 0 {
		t.Errorf("%d puts are counted", puts)
	}
}

// TestPutsThatWereNotCommittedAreForgotten, with their latencies.
func TestPutsThatWereNotCommittedAreForgotten(t *testing.T) {
	l, engine, c := newTurn(t, false)
	engine.onCommit(func() error { return errors.New("no disk") })
	put := wire.AppendPut(nil, 1, wire.WithLatency, valueOf(1, 1), 1)
	if _, alive := l.turn.answer(c, put); !alive || len(l.turn.uncommitted) == 0 {
		t.Fatalf("alive: %v, %d puts wait for a commit", alive, len(l.turn.uncommitted))
	}
	if l.commit() || len(l.turn.uncommitted) > 0 {
		t.Errorf("%d puts wait after a commit that failed", len(l.turn.uncommitted))
	}
}

// TestPutsThatNeedNoCommitAreAnsweredAtOnce, with the latency of the put alone.
func TestPutsThatNeedNoCommitAreAnsweredAtOnce(t *testing.T) {
	l, engine, c := newTurn(t, true)
	engine.onCommit(func() error { return errors.New("nobody waits for this") })
	for range 3 * timedRuns {
		if _, alive := l.turn.answer(c, wire.AppendPut(nil, 1, wire.WithLatency, valueOf(1, 1), 1)); !alive || c.dirty {
			t.Fatalf("alive: %v, to be committed: %v", alive, c.dirty)
		}
		if reply, _, err := wire.NextReply(c.output); err != nil || reply.Status != wire.OK || reply.LatencyNS == 0 {
			t.Fatalf("reply %+v, %v", reply, err)
		}
		l.release(c)
	}
	if waiting := len(l.turn.uncommitted); waiting > 0 {
		t.Errorf("%d puts wait for a commit", waiting)
	}
	counts := Counts{GetLatency: newHistogram(), PutLatency: newHistogram()}
	counts.add(&l.counters)
	if counts.PutLatency.Count() != 3 || counts.Puts != 3*timedRuns {
		t.Errorf("%d puts, %d of them timed", counts.Puts, counts.PutLatency.Count())
	}
}
