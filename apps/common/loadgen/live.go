package loadgen

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"
)

// Window is an event of a live run: what ended, and what was due, since the event before; the first one since the start of
// the warm-up.  A request that a late generator has not sent yet counts as due once its turn comes.
type Window struct {
	Event     string `json:"event"`
	FromNS    int64  `json:"from_ns"` // Unix time at the start, and from there on a clock that is never set
	AtNS      int64  `json:"at_ns"`
	Due       int    `json:"due"`
	Finished  int    `json:"finished"` // with those that failed
	Failed    int    `json:"failed"`
	InFlight  int    `json:"in_flight"` // due and not ended at at_ns
	OldestUS  uint32 `json:"oldest_us"` // the longest time since one of them was due; 0 where there are none
	Latencies string `json:"latencies"` // of the finished, from the due moment: see packed; those of failed ones are failedUS
	Waiting   string `json:"waiting"`   // time since each request in flight was due
}

const (
	failedUS  = math.MaxUint32
	longestUS = failedUS - 1 // 71 minutes
)

// flight is a request on its way, for the windows of a live run.
type flight struct {
	due       time.Duration
	latency   uint32 // in us, written before it is handed over as ended
	nextBegun *flight
	nextEnded *flight
	counted   bool // as due; like done, only the reporter's
	done      bool
}

// live hands over from those who send to the one who reports.  Both lists are stacks whose top is exchanged atomically:
// nobody who sends waits for a lock, and the reporter takes a whole list at once.
type live struct {
	begun   atomic.Pointer[flight]
	ended   atomic.Pointer[flight]
	waiting []*flight // in order of their due moments; only the reporter's
}

// begin notes the next request, before the wait until it is due.
func (l *live) begin(due time.Duration) *flight {
	f := &flight{due: due}
	for {
		f.nextBegun = l.begun.Load()
		if l.begun.CompareAndSwap(f.nextBegun, f) {
			return f
		}
	}
}

// end hands over what became of a request; one that was given up stays in flight.
func (l *live) end(f *flight, result *record) {
	if result.reason == reasonInterrupted {
		return
	}
	f.latency = failedUS
	if result.reason == "" {
		f.latency = microseconds(result.end - f.due)
	}
	for {
		f.nextEnded = l.ended.Load()
		if l.ended.CompareAndSwap(f.nextEnded, f) {
			return
		}
	}
}

// window takes what was handed over since the last one; times count from the start of the warm-up.
func (l *live) window(start time.Time, from, at time.Duration) Window {
	window := Window{Event: "window", FromNS: start.UnixNano() + int64(from), AtNS: start.UnixNano() + int64(at)}
	// First those that ended: each of them was begun before.
	var latencies, ages []uint32
	for f := l.ended.Swap(nil); f != nil; {
		f.done = true
		latencies = append(latencies, f.latency)
		if f.latency == failedUS {
			window.Failed++
		}
		next := f.nextEnded
		f.nextEnded = nil // a chain would keep all earlier ones in memory
		f = next
	}
	l.takeBegun()
	still := l.waiting[:0]
	for _, f := range l.waiting {
		due := f.due < at
		if (due || f.done) && !f.counted {
			f.counted = true
			window.Due++
		}
		if f.done {
			continue
		}
		still = append(still, f)
		if due {
			ages = append(ages, microseconds(at-f.due))
		}
	}
	clear(l.waiting[len(still):])
	l.waiting = still
	window.Finished, window.InFlight = len(latencies), len(ages)
	if len(ages) > 0 {
		window.OldestUS = ages[0]
	}
	window.Latencies, window.Waiting = packed(latencies), packed(ages)
	return window
}

// takeBegun appends what was begun to the waiting, the first one first.
func (l *live) takeBegun() {
	known := len(l.waiting)
	for f := l.begun.Swap(nil); f != nil; {
		l.waiting = append(l.waiting, f)
		next := f.nextBegun
		f.nextBegun = nil
		f = next
	}
	for left, right := known, len(l.waiting)-1; left < right; left, right = left+1, right-1 {
		l.waiting[left], l.waiting[right] = l.waiting[right], l.waiting[left]
	}
}

// report emits a window each period until finished is closed, and then the last one, which may be shorter; an interrupted
// run has no such end.
func (l *live) report(s *sender, period time.Duration, events *Events, finished, interrupted <-chan struct{}) {
	from := time.Duration(0)
	emit := func() {
		if at := time.Since(s.start); at > from {
			events.Emit(l.window(s.start, from, at))
			from = at
		}
	}
	for next := period; ; next = (from/period + 1) * period { // those that a stalled machine missed are one long window
		timer := time.NewTimer(time.Until(s.start.Add(next)))
		select {
		case <-timer.C:
			emit()
		case <-finished:
			timer.Stop()
			select {
			case <-interrupted:
			default:
				emit()
			}
			return
		}
	}
}

func microseconds(duration time.Duration) uint32 {
	return uint32(min(max(duration.Microseconds(), 0), longestUS))
}

// packed is base64 of little-endian 32-bit numbers.
func packed(values []uint32) string {
	data := make([]byte, 0, 4*len(values))
	for _, value := range values {
		data = binary.LittleEndian.AppendUint32(data, value)
	}
	return base64.StdEncoding.EncodeToString(data)
}
