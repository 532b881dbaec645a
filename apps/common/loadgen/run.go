package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// Phase is an event: a part of the run begins.  Names: login (where users log in), warmup, window, drain, done.
type Phase struct {
	Event string `json:"event"`
	Name  string `json:"name"`
	AtNS  int64  `json:"at_ns"`
}

// Progress is an event that comes at most twice a second.
type Progress struct {
	Event    string `json:"event"`
	AtNS     int64  `json:"at_ns"`
	Planned  int    `json:"planned"`
	Finished int64  `json:"finished"`
	Failed   int64  `json:"failed"`
	InFlight int64  `json:"in_flight"`
}

// Problem is an event: the plan is refused, or the run could not be finished.
type Problem struct {
	Event   string `json:"event"`
	Refused bool   `json:"refused"` // the plan is at fault; nothing was sent
	Message string `json:"message"`
}

// Events writes one JSON value per line; it may be used by several goroutines.
type Events struct {
	Writer io.Writer
	lock   sync.Mutex
	failed error
}

// Emit writes an event.  A failure is kept for Err: the load must go on.
func (events *Events) Emit(event any) {
	line, err := json.Marshal(event)
	events.lock.Lock()
	defer events.lock.Unlock()
	if err == nil {
		_, err = events.Writer.Write(append(line, '\n'))
	}
	if events.failed == nil {
		events.failed = err
	}
}

// Err is the first failure to write an event.
func (events *Events) Err() error {
	events.lock.Lock()
	defer events.lock.Unlock()
	return events.failed
}

func (events *Events) phase(name string) {
	events.Emit(Phase{Event: "phase", Name: name, AtNS: time.Now().UnixNano()})
}

const (
	leadTime       = 100 * time.Millisecond // between the schedule's completion and its first moment
	progressPeriod = 500 * time.Millisecond
)

// Run executes a plan and returns its result.  When the context is cancelled, requests in flight are given up, what
// was not sent is marked as interrupted, and the result says so.
func Run(ctx context.Context, plan *Plan, workload *Workload, events *Events) (*Result, error) {
	s := newSender(plan, workload)
	defer s.caller.stop()
	if err := s.prepare(ctx, events); err != nil {
		return nil, err
	}
	defer spareGarbageCollection()()
	s.start = time.Now().Add(leadTime)
	return s.execute(ctx, events)
}

// spareGarbageCollection lets the heap grow by a gigabyte before anything is collected: a collection takes a
// processor that the application under test needs, and delays requests.  It returns how to undo that.
func spareGarbageCollection() func() {
	const allowance = 1 << 30
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	limit := debug.SetMemoryLimit(int64(memory.Sys-memory.HeapReleased) + allowance)
	percent := debug.SetGCPercent(-1)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

func (s *sender) execute(ctx context.Context, events *Events) (*Result, error) {
	speed, err := newYardstick()
	if err != nil {
		return nil, err
	}
	defer speed.close()
	reporter := &reporter{sender: s, events: events, windowEnded: make(chan struct{}), finished: make(chan struct{})}
	var reporting sync.WaitGroup
	reporting.Add(1)
	go func() {
		defer reporting.Done()
		reporter.run()
	}()
	reporting.Add(1)
	go func() {
		defer reporting.Done()
		from := s.start.Add(s.plan.Warmup())
		speed.run(from, from.Add(s.plan.Window()), reporter.finished)
	}()
	if s.live != nil {
		reporting.Add(1)
		go func() {
			defer reporting.Done()
			period := time.Duration(s.plan.LiveMS) * time.Millisecond
			s.live.report(s, period, events, reporter.finished, ctx.Done())
		}()
	}
	err = s.run(ctx)
	if err == nil {
		// The window lasts until its end even when its last request was due, and answered, before.
		select {
		case <-ctx.Done():
		case <-reporter.windowEnded:
		}
	}
	interrupted := ctx.Err() != nil
	close(reporter.finished)
	reporting.Wait()
	if err != nil {
		return nil, fmt.Errorf("sending: %w", err)
	}
	var spans spanCount
	if !interrupted {
		spans = s.exportSpans(ctx)
	}
	result, err := s.result(spans, reporter.processor, interrupted)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	result.Yardstick = speed.found
	if !interrupted {
		events.phase("done")
	}
	return result, events.Err()
}

// reporter says what phase the run is in and how far it has come.
type reporter struct {
	sender      *sender
	events      *Events
	windowEnded chan struct{} // closed once "drain" is reported
	finished    chan struct{} // closed by the owner when every request has its outcome
	processor   float64       // seconds used in the window; 0 until it ended
}

func (r *reporter) run() {
	window := r.sender.plan.Warmup()
	if !r.until(0) {
		return
	}
	r.events.phase("warmup")
	if !r.until(window) {
		return
	}
	before := processorSeconds()
	r.events.phase("window")
	if !r.until(window + r.sender.plan.Window()) {
		return
	}
	r.processor = processorSeconds() - before
	r.events.phase("drain")
	close(r.windowEnded)
	r.until(window + r.sender.plan.Window() + r.sender.workload.Timeout + time.Hour) // until finished
}

// until reports progress up to a moment of the run; false when the run has finished before.
func (r *reporter) until(offset time.Duration) bool {
	moment := time.NewTimer(time.Until(r.sender.start.Add(offset)))
	defer moment.Stop()
	ticker := time.NewTicker(progressPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-moment.C:
			return true
		case <-r.finished:
			return false
		case <-ticker.C:
			r.events.Emit(Progress{
				Event: "progress", AtNS: time.Now().UnixNano(), Planned: r.sender.planned,
				Finished: r.sender.sent.Load(), Failed: r.sender.failed.Load(), InFlight: r.sender.inFlight.Load(),
			})
		}
	}
}
