package loadgen

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Yardstick tells what the machine asked for the same work in the window: the processor time of a tick.
//
// On a machine that is shared with others the same requests cost more processor time in one window than in the next,
// though nothing was stolen: mostly for what happens between the work, putting a thread to sleep, waking another one on
// the other processor, setting a timer.  A tick does just that, beside the load and often enough to meet what lasts
// for milliseconds only: a thread wakes, wakes another one, and waits for its answer.  Nothing that is configured in the
// application changes what a tick does.
type Yardstick struct {
	Ticks  int     `json:"ticks"`
	TickUS float64 `json:"tick_us"` // mean processor time of one, of both threads
}

// tickPeriod: one to two hundredths of a core.
const tickPeriod = 4 * time.Millisecond

type yardstick struct {
	there    [2]int // the partner, on a thread of its own, reads from there[0] and answers to back[1]
	back     [2]int
	partner  atomic.Int64 // its processor time so far (ns), as of its last answer
	answered chan struct{}
	found    *Yardstick
}

func newYardstick() (*yardstick, error) {
	y := &yardstick{answered: make(chan struct{})}
	if err := unix.Pipe2(y.there[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("yardstick: %w", err)
	}
	if err := unix.Pipe2(y.back[:], unix.O_CLOEXEC); err != nil {
		_ = unix.Close(y.there[0]) // nothing is lost with them
		_ = unix.Close(y.there[1])
		return nil, fmt.Errorf("yardstick: %w", err)
	}
	go y.answer()
	return y, nil
}

func (y *yardstick) close() {
	_ = unix.Close(y.there[1]) // which ends the partner
	<-y.answered
	for _, descriptor := range []int{y.there[0], y.back[0], y.back[1]} {
		_ = unix.Close(descriptor)
	}
}

// answer wakes up for each byte and sends it back, until nobody can write any more.
func (y *yardstick) answer() {
	defer close(y.answered)
	runtime.LockOSThread() // processor time is counted by thread
	defer runtime.UnlockOSThread()
	var one [1]byte
	for {
		if n, err := unix.Read(y.there[0], one[:]); err == unix.EINTR {
			continue
		} else if n != 1 {
			return
		}
		y.partner.Store(int64(threadTime()))
		if _, err := unix.Write(y.back[1], one[:]); err != nil {
			return
		}
	}
}

// run ticks until the end of the window or until stop is closed; what happens before the window does not count.
func (y *yardstick) run(from, until time.Time, stop <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ticks, before := 0, time.Duration(0)
	for due := monotonic(); time.Now().Before(until); {
		select {
		case <-stop:
			return
		default:
		}
		if ticks == 0 {
			before = threadTime() + time.Duration(y.partner.Load())
		}
		due = max(due+tickPeriod, monotonic()) // those that a stalled machine missed are not made up for
		if err := y.tick(due); err != nil {
			return
		}
		if time.Now().After(from) {
			ticks++
		}
	}
	if ticks > 0 {
		used := threadTime() + time.Duration(y.partner.Load()) - before
		y.found = &Yardstick{Ticks: ticks, TickUS: used.Seconds() * 1e6 / float64(ticks)}
	}
}

// tick sleeps until a moment of the monotonic clock, wakes the partner and waits for its answer.
func (y *yardstick) tick(due time.Duration) error {
	at := unix.NsecToTimespec(int64(due))
	for {
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil); err != unix.EINTR {
			break
		}
	}
	var one [1]byte
	if _, err := unix.Write(y.there[1], one[:]); err != nil {
		return err
	}
	for {
		if _, err := unix.Read(y.back[0], one[:]); err != unix.EINTR {
			return err
		}
	}
}

// threadTime is the processor time of this thread.
func threadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

func monotonic() time.Duration { return clock(unix.CLOCK_MONOTONIC) }

func clock(which int32) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(which, &now); err != nil {
		panic(err) // only a wrong argument makes it fail
	}
	return time.Duration(now.Nano())
}
