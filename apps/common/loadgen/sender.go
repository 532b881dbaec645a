package loadgen

import (
	"context"
	"math"
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
	requests []Request // the whole schedule with what became of it; empty in a run that forgets
	records  []record
	traces   []traceID
	wires    [][]byte // each plain request as it goes over a connection
	planned  int      // requests of the schedule; in a run that forgets: expected
	limit    int64
	caller   *caller
	users    []*user
	start    time.Time
	inFlight atomic.Int64
	sent     atomic.Int64
	failed   atomic.Int64
	group    sync.WaitGroup
	tally    *tally // instead of records, in a run that forgets
	live     *live  // nil: nothing is reported before the end
}

// newSender derives the schedule; the caller sets when it starts, after prepare.
func newSender(plan *Plan, workload *Workload) *sender {
	s := &sender{plan: plan, workload: workload, limit: maxInFlight, caller: newCaller(plan.target, workload)}
	if plan.LiveMS > 0 {
		s.live = &live{}
	}
	if plan.Forget {
		s.planned, s.tally = int(math.Round(plan.expected())), newTally(plan, workload)
		return s
	}
	s.requests = Schedule(plan, workload)
	s.planned = len(s.requests)
	s.records, s.traces, s.wires = make([]record, s.planned), newTraceIDs(s.planned), make([][]byte, s.planned)
	for index := range s.requests {
		s.wires[index] = s.toWire(&s.requests[index], &s.traces[index])
	}
	return s
}

// toWire makes the bytes of a plain request, which then are no longer in the request; nil for others.
func (s *sender) toWire(request *Request, trace *traceID) []byte {
	class := s.workload.Classes[request.Class]
	if !class.plain {
		return nil
	}
	out := newOutgoing(class, request, s.plan.target.Host, s.carried(request, trace))
	request.Headers, request.Body = nil, ""
	return out.wire()
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
	next := s.held()
	if s.tally != nil {
		stop := make(chan struct{})
		defer close(stop)
		next = s.ahead(stop)
	}
	for shot, more := next(); more; shot, more = next() {
		if s.live != nil {
			shot.flight = s.live.begin(shot.request.Due)
		}
		if err := timer.wait(shot.request.Due); ctx.Err() != nil {
			s.interrupt(shot.index)
			return nil
		} else if err != nil {
			return err
		}
		if s.inFlight.Add(1) > s.limit {
			s.inFlight.Add(-1)
			now := time.Since(s.start)
			s.finish(shot, record{sent: now, end: now, reason: reasonInFlight})
			continue
		}
		s.group.Add(1)
		go func() {
			defer s.group.Done()
			defer s.inFlight.Add(-1)
			s.finish(shot, s.send(ctx, shot))
		}()
	}
	return nil
}

func (s *sender) finish(shot shot, result record) {
	if s.tally != nil {
		s.tally.add(shot.request, &result)
	} else {
		s.records[shot.index] = result
	}
	s.sent.Add(1)
	if result.reason != "" {
		s.failed.Add(1)
	}
	if s.live != nil {
		s.live.end(shot.flight, &result)
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
func (s *sender) measured(index int) bool { return s.requests[index].measured(s.plan) }

func (request *Request) measured(plan *Plan) bool { return request.Due >= plan.Warmup() }

func (s *sender) send(ctx context.Context, shot shot) record {
	request := shot.request
	class := s.workload.Classes[request.Class]
	// The time to answer counts from the due time, as the latency does.
	deadline := s.start.Add(request.Due + s.workload.Timeout)
	result := record{sent: time.Since(s.start)}
	if shot.refused != "" {
		result.end, result.reason = result.sent, shot.refused
		return result
	}
	handed := func() { result.sent = time.Since(s.start) }
	var done outcome
	if class.plain {
		sent := &wire{method: class.Method, text: shot.wire, keepBody: class.Expect.needsBody()}
		done.status, done.reason, done.err = s.plain(ctx, class, sent, deadline, handed)
	} else {
		done = s.caller.perform(ctx, &task{
			class: class, user: s.users[request.user], lane: s.lane(shot), carried: s.carried(request, shot.trace),
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
func (s *sender) lane(shot shot) int {
	if s.workload.users == nil {
		return shot.index
	}
	return int(shot.request.user)
}

// carried is the header lines with the context of a request's trace.
func (s *sender) carried(request *Request, trace *traceID) string {
	state := "tailor=w"
	if request.measured(s.plan) {
		state = "tailor=m"
	}
	return trace.context(s.plan.Propagation, s.plan.Trace, state)
}
