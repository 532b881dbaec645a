package loadgen

import (
	"fmt"
	"os"
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
}

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
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(t.base + int64(offset))}
	if err := unix.TimerfdSettime(t.descriptor, unix.TFD_TIMER_ABSTIME, &at, nil); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	if _, err := t.file.Read(t.buffer[:]); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	return nil
}

// stop ends a wait from another goroutine.
func (t *timer) stop() { _ = t.file.SetReadDeadline(time.Unix(1, 0)) } // fails only on a closed timer: nobody waits

func (t *timer) close() { _ = t.file.Close() } // nothing is lost with a timer

// RaisePriority gives every thread of the process the highest niceness that it may have, and returns it.  Threads
// that start later inherit it.  Without permission (CAP_SYS_NICE) nothing changes.
func RaisePriority() (int, error) {
	const highest = -20
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0, fmt.Errorf("priority: %w", err)
	}
	for _, thread := range threads {
		var id int
		if _, err := fmt.Sscan(thread.Name(), &id); err != nil {
			return 0, fmt.Errorf("priority: %w", err)
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, id, highest); err != nil && err != unix.ESRCH {
			return 0, fmt.Errorf("priority: %w", err)
		}
	}
	return highest, nil
}

// processorSeconds is what this process has used so far.
func processorSeconds() float64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(err) // only a wrong argument makes it fail
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
