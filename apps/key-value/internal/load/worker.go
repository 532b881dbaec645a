package load

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"tailor/apps/key-value/internal/dialect"
	"tailor/apps/key-value/internal/record"
	"tailor/apps/key-value/internal/socket"
	"tailor/apps/key-value/internal/wire"
)

const (
	inputSize       = 256<<10 + wire.MaxReply
	eventsPerRound  = 512
	drainTimeout    = 5 * time.Second        // for replies after the end
	lookEvery       = 100 * time.Millisecond // whether the phase is over
	tooShortToSleep = 50 * time.Microsecond
	// maxOutstanding requests of a thread may wait for replies in an open loop; what is due beyond has failed.
	maxOutstanding = 1 << 20
)

// phase is a part of a run.
type phase struct {
	fill      bool
	next      *atomic.Uint64 // of a fill: the next key to be stored
	start     time.Time
	over      atomic.Bool // of what is not a fill: nothing more is sent
	recording atomic.Bool // latencies are kept
}

// worker is one thread with its connections.
type worker struct {
	plan     *Plan
	dialect  dialect.Dialect
	sessions []*session
	byNumber []*session // by descriptor
	epoll    int
	timer    int
	events   []unix.EpollEvent
	input    []byte
	output   []byte
	random   *rand.Rand
	keys     *keys
	values   [][]byte
	places   [][]byte // where values are copied to be looked into
	found    []bool
	batch    []uint64

	phase       *phase
	outstanding int
	turn        int           // session of the next request of an open loop
	due         time.Duration // of that request, since the phase's start
	stopped     bool          // nothing more is sent
	result      counts
	gets, puts  latencies
	lines       lines
}

func newWorker(plan *Plan, number, connections int) (*worker, error) {
	w := &worker{
		plan:    plan,
		dialect: plan.dialect(),
		events:  make([]unix.EpollEvent, eventsPerRound),
		input:   make([]byte, inputSize),
		random:  rand.New(rand.NewPCG(plan.Seed, uint64(number))),
		found:   make([]bool, plan.Batch),
		batch:   make([]uint64, plan.Batch),
		gets:    newLatencies(),
		puts:    newLatencies(),
	}
	w.keys = newKeys(w.random, plan.Keys, plan.Zipf)
	for range plan.Batch {
		w.values = append(w.values, make([]byte, record.Size))
		w.places = append(w.places, make([]byte, record.Size))
	}
	if !plan.Verify {
		w.places = nil
	}
	var err error
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	w.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := w.watch(unix.EPOLL_CTL_ADD, w.timer, unix.EPOLLIN); err != nil {
		return nil, err
	}
	return w, w.connect(number, connections)
}

func (w *worker) watch(operation, descriptor int, events uint32) error {
	return unix.EpollCtl(w.epoll, operation, descriptor, &unix.EpollEvent{Events: events, Fd: int32(descriptor)})
}

// connect opens the thread's connections, some at a time, so that the server's queue of new ones does not run over.
func (w *worker) connect(number, connections int) error {
	for count := range connections {
		descriptor, err := w.open(number*connections + count)
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", count+1, connections, err)
		}
		for len(w.byNumber) <= descriptor {
			w.byNumber = append(w.byNumber, nil)
		}
		s := &session{descriptor: descriptor, status: allGood}
		w.byNumber[descriptor] = s
		w.sessions = append(w.sessions, s)
		if err := w.watch(unix.EPOLL_CTL_ADD, descriptor, unix.EPOLLIN); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) open(number int) (int, error) {
	family, to, err := socket.Address(w.plan.Address)
	if err != nil {
		return -1, err
	}
	var from unix.Sockaddr
	if w.plan.Sources > 0 && family == unix.AF_INET {
		from = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, byte(1 + number%w.plan.Sources)}}
	}
	return socket.Dial(family, from, to)
}

// drive takes part in a phase until its end.
func (w *worker) drive(p *phase) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w.phase, w.stopped, w.turn = p, false, 0
	if w.isOpen() {
		w.due = w.gap()
	} else {
		for _, s := range w.sessions {
			if err := w.burst(s); err != nil {
				return err
			}
		}
	}
	var deadline time.Time
	for {
		if !w.stopped && p.over.Load() {
			w.stopped = true
			deadline = time.Now().Add(drainTimeout)
		}
		if w.outstanding == 0 && (w.stopped || p.fill) {
			return nil
		}
		if w.stopped && !p.fill && time.Now().After(deadline) {
			w.giveUp()
			return nil
		}
		if w.isOpen() && !w.stopped {
			if err := w.sendDue(); err != nil {
				return err
			}
		}
		if err := w.wait(); err != nil {
			return err
		}
	}
}

// giveUp notes what has no reply.
func (w *worker) giveUp() {
	w.result.unanswered.Add(int64(w.outstanding))
	for _, s := range w.sessions {
		if w.plan.Log != "" && s.first < len(s.queue) {
			w.lines.add(w.phase.start.Add(s.queue[s.first].due), noReply, 0)
		}
	}
}

func (w *worker) isOpen() bool { return w.plan.RateRPS > 0 && !w.phase.fill }

// wait handles what has happened, and waits for it: at most until something is to be done.
func (w *worker) wait() error {
	count, err := w.happened()
	if err != nil {
		return err
	}
	for _, event := range w.events[:count] {
		if int(event.Fd) == w.timer {
			var times [8]byte
			_, _ = unix.Read(w.timer, times[:])
			continue
		}
		s := w.byNumber[event.Fd]
		if event.Events&unix.EPOLLOUT != 0 {
			if err := w.push(s); err != nil {
				return err
			}
		}
		if event.Events&^unix.EPOLLOUT != 0 {
			if err := w.receive(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// happened fills the events. Where the next request is due very soon, it only looks: to set a timer and to be woken takes
// longer than that, and would make what is sent late, and the generator the bottleneck.
func (w *worker) happened() (int, error) {
	left := lookEvery
	if w.isOpen() && !w.stopped {
		if left = min(left, w.due-time.Since(w.phase.start)); left < tooShortToSleep {
			return socket.Look(w.epoll, w.events)
		}
	}
	setting := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
	if err := unix.TimerfdSettime(w.timer, 0, &setting, nil); err != nil {
		return 0, err
	}
	return socket.Wait(w.epoll, w.events)
}

func (w *worker) gap() time.Duration {
	mean := float64(time.Second) * float64(w.plan.Threads) / w.plan.RateRPS
	return time.Duration(w.random.ExpFloat64() * mean)
}

// sendDue sends all requests that are due.
func (w *worker) sendDue() error {
	for w.due <= time.Since(w.phase.start) && !w.phase.over.Load() {
		if w.outstanding >= maxOutstanding {
			w.result.dropped.Add(1)
		} else {
			s := w.sessions[w.turn]
			w.output = w.output[:0]
			w.request(s, w.due)
			if err := w.send(s); err != nil {
				return err
			}
		}
		w.turn = (w.turn + 1) % len(w.sessions)
		w.due += w.gap()
	}
	return nil
}

// burst sends as many requests as the plan has at once, none where the phase is over.
func (w *worker) burst(s *session) error {
	w.output = w.output[:0]
	now := time.Since(w.phase.start)
	for range w.plan.Depth {
		if !w.request(s, now) {
			break
		}
	}
	return w.send(s)
}

// request appends a request to the output; it is false where a fill has no more keys.
func (w *worker) request(s *session, due time.Duration) bool {
	batch := w.batch
	isGet := false
	if w.phase.fill {
		first := w.phase.next.Add(uint64(len(batch))) - uint64(len(batch))
		if first >= w.plan.Keys {
			return false
		}
		batch = batch[:min(uint64(len(batch)), w.plan.Keys-first)]
		for i := range batch {
			batch[i] = first + uint64(i)
		}
	} else {
		isGet = w.plan.GetShare == 1 || w.random.Float64() < w.plan.GetShare
		for i := range batch {
			batch[i] = w.keys.next()
		}
	}
	replies := 1
	if isGet {
		w.output = w.dialect.Get(w.output, batch)
	} else {
		for i, key := range batch {
			binary.LittleEndian.PutUint64(w.values[i], key)
			binary.LittleEndian.PutUint64(w.values[i][8:], uint64(due))
		}
		w.output = w.dialect.Put(w.output, batch, w.values)
		replies = w.dialect.Puts(len(batch))
	}
	s.expect(waiting{isGet: isGet, replies: replies, count: len(batch), due: due}, batch)
	w.outstanding++
	return true
}
