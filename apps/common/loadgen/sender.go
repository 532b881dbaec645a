package loadgen

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// record is what became of one request; times count from the start of the warm-up.
type record struct {
	sent, end time.Duration
	status    int16
	reason    string // "" for a good reply
}

// maxInFlight bounds what a service that has stopped answering can make the generator hold.  Past it a request fails
// with a reason of its own; it is never delayed.
const maxInFlight = 20_000

// sender sends the requests of a schedule, each at its due time and in its own goroutine.
type sender struct {
	plan     *Plan
	workload *Workload
	requests []Request
	records  []record
	traces   []traceID
	limit    int64
	wires    [][]byte // each plain request as it goes over a connection
	caller   *caller
	users    []*user
	start    time.Time
	inFlight atomic.Int64
	sent     atomic.Int64
	failed   atomic.Int64
	group    sync.WaitGroup
}

// newSender derives the schedule; the caller sets when it starts, after prepare.
func newSender(plan *Plan, workload *Workload) *sender {
	requests := Schedule(plan, workload)
	s := &sender{
		plan: plan, workload: workload, requests: requests, records: make([]record, len(requests)),
		traces: newTraceIDs(len(requests)), wires: make([][]byte, len(requests)), limit: maxInFlight,
		caller: newCaller(plan.target, workload),
	}
	for index := range requests {
		request := &s.requests[index]
		class := workload.Classes[request.Class]
		if !class.plain {
			continue
		}
		out := newOutgoing(class, request, plan.target.Host, s.carried(index))
		s.wires[index] = out.wire()
		request.Headers, request.Body = nil, "" // they live in the wire
	}
	return s
}

// run sends everything and returns when the last reply is there, has timed out, or the context is cancelled.
func (s *sender) run(ctx context.Context) error {
	timer, err := newTimer(s.start)
	if err != nil {
		return err
	}
	defer timer.close()
	defer context.AfterFunc(ctx, timer.stop)()
	defer context.AfterFunc(ctx, s.caller.stop)()
	defer s.group.Wait()
	for index := range s.requests {
		due := s.requests[index].Due
		if err := timer.wait(due); ctx.Err() != nil {
			s.interrupt(index)
			return nil
		} else if err != nil {
			return err
		}
		if s.inFlight.Add(1) > s.limit {
			s.inFlight.Add(-1)
			now := time.Since(s.start)
			s.finish(index, record{sent: now, end: now, reason: reasonInFlight})
			continue
		}
		s.group.Add(1)
		go func() {
			defer s.group.Done()
			defer s.inFlight.Add(-1)
			s.finish(index, s.send(ctx, index))
		}()
	}
	return nil
}

func (s *sender) finish(index int, result record) {
	s.records[index] = result
	s.sent.Add(1)
	if result.reason != "" {
		s.failed.Add(1)
	}
}

// interrupt marks what will not be sent.
func (s *sender) interrupt(from int) {
	now := time.Since(s.start)
	for index := from; index < len(s.records); index++ {
		s.records[index] = record{sent: now, end: now, reason: reasonInterrupted}
	}
}

// measured says whether a request belongs to the window: by when it is due, not by when it was sent.
func (s *sender) measured(index int) bool { return s.requests[index].Due >= s.plan.Warmup() }

func (s *sender) send(ctx context.Context, index int) record {
	request := &s.requests[index]
	class := s.workload.Classes[request.Class]
	// The time to answer counts from the due time, as the latency does.
	deadline := s.start.Add(request.Due + s.workload.Timeout)
	result := record{sent: time.Since(s.start)}
	handed := func() { result.sent = time.Since(s.start) }
	var done outcome
	if class.plain {
		sent := &wire{method: class.Method, text: s.wires[index], keepBody: class.Expect.needsBody()}
		done.status, done.reason, done.err = s.plain(ctx, class, sent, deadline, handed)
	} else {
		done = s.caller.perform(ctx, &task{
			class: class, user: s.users[request.user], lane: s.lane(index), carried: s.carried(index),
			deadline: deadline, handed: handed,
		}, request)
	}
	result.end, result.status, result.reason = time.Since(s.start), int16(done.status), done.reason
	if done.err != nil && ctx.Err() != nil {
		result.reason = reasonInterrupted
	}
	return result
}

// plain sends a request whose bytes were made with the schedule: of all requests the cheapest to send.
func (s *sender) plain(ctx context.Context, class *Class, sent *wire, deadline time.Time, handed func()) (int, string, error) {
	got, err := s.caller.pool.exchange(ctx, sent, deadline, handed)
	if err != nil {
		return got.status, classify(err), err
	}
	return got.status, class.Expect.judge(got.status, got.body), nil
}

// lane: each user has its connection of HTTP/2; without users they take turns.
func (s *sender) lane(index int) int {
	if s.workload.users == nil {
		return index
	}
	return int(s.requests[index].user)
}

// carried is the header lines with the context of a request's trace.
func (s *sender) carried(index int) string {
	state := "tailor=w"
	if s.measured(index) {
		state = "tailor=m"
	}
	return s.traces[index].context(s.plan.Propagation, s.plan.Trace, state)
}
