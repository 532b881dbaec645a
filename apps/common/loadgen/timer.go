package loadgen

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// timer waits for a moment with the kernel's high-resolution clock.
//
// time.Sleep is rounded to whole milliseconds by the runtime's poller.  A thread of its own in clock_nanosleep is as
// exact as this timer, but each request then has to be handed to another thread, at twice the processor time.  A
// timer descriptor is read through the runtime's poller like a socket: the thread that it wakes sends the request.
type timer struct {
	file       *os.File
	descriptor int
	start      time.Time
	base       int64 // the monotonic clock at start, in ns
	buffer     [8]byte
	early      time.Duration // how long before the moment the timer is set to wake
}

// Waking up takes a processor that sleeps, or that works for others, some time: 0.1 ms in the mean and 0.3 ms in the
// 99th percentile on an idle virtual machine.  So the timer is set that much early and the rest is waited for on the
// processor: as much as nine in ten wake-ups need, found while it runs, and never more than latest.
const (
	wakeQuantile = 0.9
	wakeStep     = 10 * time.Microsecond
	latest       = 400 * time.Microsecond
)

func newTimer(start time.Time) (*timer, error) {
	descriptor, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	base := now.Nano() + int64(time.Until(start))
	return &timer{file: os.NewFile(uintptr(descriptor), "timer"), descriptor: descriptor, start: start, base: base}, nil
}

// wait returns at or after start + offset, or at once with an error when the timer was stopped.
func (t *timer) wait(offset time.Duration) error {
	if time.Since(t.start) >= offset {
		return nil
	}
	if time.Since(t.start) < offset-t.early {
		at := unix.ItimerSpec{Value: unix.NsecToTimespec(t.base + int64(offset-t.early))}
		if err := unix.TimerfdSettime(t.descriptor, unix.TFD_TIMER_ABSTIME, &at, nil); err != nil {
			return fmt.Errorf("timer: %w", err)
		}
		if _, err := t.file.Read(t.buffer[:]); err != nil {
			return fmt.Errorf("timer: %w", err)
		}
		t.learn(time.Since(t.start) > offset)
	}
	for time.Since(t.start) < offset { // on the processor: to give it away would mean to wake up again
	}
	return nil
}

// learn moves early towards a quantile of how long waking up takes (stochastic approximation: Robbins and Monro, 1951).
func (t *timer) learn(late bool) {
	step := -(1 - wakeQuantile) * float64(wakeStep)
	if late {
		step = wakeQuantile * float64(wakeStep)
	}
	t.early = min(max(t.early+time.Duration(step), 0), latest)
}

// stop ends a wait from another goroutine.
func (t *timer) stop() { _ = t.file.SetReadDeadline(time.Unix(1, 0)) } // fails only on a closed timer: nobody waits

func (t *timer) close() { _ = t.file.Close() } // nothing is lost with a timer

// slice is how long a thread of the generator asks to run at once: the least that Linux grants.
//
// A thread that wakes takes the processor from another only if its own slice is the shorter one (Linux 6.12 and
// later; EEVDF's PREEMPT_SHORT); else the other keeps it to the end of its slice of about 3 ms.  With both processors
// taken by others, this lowered the 99th percentile of the lag from 1.4-3.6 to 0.7 ms.  Older kernels ignore it.
const slice = 100 * time.Microsecond

// RaisePriority gives every thread of the process the shortest slice and, where permitted (CAP_SYS_NICE), the highest
// niceness.  Threads that start later inherit both.
func RaisePriority() error {
	const highest = -20
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return fmt.Errorf("priority: %w", err)
		}
		attributes := unix.SchedAttr{Size: unix.SizeofSchedAttr, Nice: highest, Runtime: uint64(slice)}
		err = unix.SchedSetAttr(id, &attributes, 0)
		if errors.Is(err, unix.EPERM) {
			attributes.Nice = 0
			err = unix.SchedSetAttr(id, &attributes, 0)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) { // a thread that has ended meanwhile
			return fmt.Errorf("priority: %w", err)
		}
	}
	return nil
}

// processorSeconds is what this process has used so far.
func processorSeconds() float64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(err) // only a wrong argument makes it fail
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
