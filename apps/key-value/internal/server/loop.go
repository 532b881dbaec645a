package server

import (
	"encoding/binary"
	"log/slog"
	"math/bits"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"tailor/apps/key-value/internal/socket"
	"tailor/apps/key-value/internal/wire"
)

const (
	eventsPerRound = 256 // of a thread; as many buffers may wait for a commit
	acceptsAtOnce  = 64
	idleBuffers    = 64 // kept between rounds
)

// loop is a thread with its connections.
type loop struct {
	server      *Server
	counters    counters
	epoll       int
	waker       int           // an eventfd: something is in arrived, or the loop is to stop
	listener    int           // of the first loop; -1
	reserve     int           // a descriptor to be given up for one moment when there are no more
	refused     int           // connections for which there was none
	connections []*connection // by descriptor
	input       []byte        // what the connection whose turn it is has sent
	buffers     [][]byte      // for output, at rest
	partials    [][]byte      // for partial input, at rest
	large       []byte        // for a reply that is longer than one of these, if one was needed yet
	waits       bool          // replies to puts wait for the engine's commit
	waiting     []*connection // that have replies to puts
	turn        turn

	stopping atomic.Bool
	mutex    sync.Mutex
	arrived  []int // descriptors accepted by the first loop
	next     int   // loop that gets the next connection
}

func newLoop(s *Server) (*loop, error) {
	l := &loop{server: s, listener: -1, waker: -1, input: make([]byte, s.options.Buffer), waits: !s.engine.CommitsAtOnce()}
	l.turn.prepare(l)
	l.counters.prepare()
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if l.waker, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, err
	}
	return l, l.watch(unix.EPOLL_CTL_ADD, l.waker, unix.EPOLLIN)
}

func (l *loop) watch(operation, descriptor int, events uint32) error {
	return unix.EpollCtl(l.epoll, operation, descriptor, &unix.EpollEvent{Events: events, Fd: int32(descriptor)})
}

func (l *loop) watchListener(descriptor int) (err error) {
	l.listener = descriptor
	if l.reserve, err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	return l.watch(unix.EPOLL_CTL_ADD, descriptor, unix.EPOLLIN)
}

// run answers until the loop is stopped. After each round it lets others run, because the calls to its sockets do not,
// and there may be more loops than processors.
func (l *loop) run() {
	events := make([]unix.EpollEvent, eventsPerRound)
	for !l.stopping.Load() {
		count, err := socket.Wait(l.epoll, events)
		if err != nil {
			slog.Error("epoll", "error", err)
			return
		}
		for _, event := range events[:count] {
			l.handle(int(event.Fd))
		}
		l.finishRound()
		runtime.Gosched()
	}
}

func (l *loop) handle(descriptor int) {
	switch descriptor {
	case l.waker:
		l.adopt()
	case l.listener:
		l.accept()
	default:
		c := l.connections[descriptor]
		if c == nil {
			return // closed earlier in this round
		}
		if len(c.pending) > 0 {
			l.drain(c)
		} else {
			l.receive(c)
		}
	}
}

// finishRound commits the round's puts and sends the replies that waited for it.
func (l *loop) finishRound() {
	if len(l.waiting) > 0 {
		alive := l.commit()
		for i, c := range l.waiting {
			l.waiting[i] = nil
			if l.connections[c.descriptor] != c {
				continue // dropped meanwhile
			}
			c.dirty = false
			if alive {
				l.send(c)
			} else {
				l.drop(c)
			}
		}
		l.waiting = l.waiting[:0]
	}
	if len(l.buffers) > idleBuffers {
		clear(l.buffers[idleBuffers:])
		l.buffers = l.buffers[:idleBuffers]
	}
}

// commit makes all puts of the round durable, as far as the engine was asked to, and says whether it could.
func (l *loop) commit() bool {
	if err := l.server.engine.Commit(); err != nil {
		slog.Error("puts were not committed, and their connections are closed without a reply", "error", err)
		l.turn.forget()
		return false
	}
	l.turn.committed()
	return true
}

func (l *loop) accept() {
	for range acceptsAtOnce {
		descriptor, _, err := unix.Accept4(l.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err == unix.ECONNABORTED || err == unix.EINTR {
			continue
		}
		if err == unix.EMFILE || err == unix.ENFILE {
			l.refuse()
			continue
		}
		if err != nil {
			if err != unix.EAGAIN {
				slog.Warn("a connection was not accepted", "error", err)
			}
			return
		}
		loops := l.server.loops
		l.next = (l.next + 1) % len(loops)
		loops[l.next].give(descriptor)
	}
}

// refuse closes a connection for which there is no descriptor; left alone, it would be announced again and again.
func (l *loop) refuse() {
	_ = unix.Close(l.reserve)
	if descriptor, _, err := unix.Accept4(l.listener, unix.SOCK_CLOEXEC); err == nil {
		_ = unix.Close(descriptor)
	}
	l.reserve, _ = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if l.refused++; bits.OnesCount(uint(l.refused)) == 1 { // 1, 2, 4, 8 ...: it may go on for long
		slog.Warn("no more connections: the limit of open files is reached (ulimit -n)", "refused", l.refused)
	}
}

// give hands a connection to a loop.
func (l *loop) give(descriptor int) {
	l.mutex.Lock()
	l.arrived = append(l.arrived, descriptor)
	l.mutex.Unlock()
	l.wake()
}

func (l *loop) wake() {
	_, _ = unix.Write(l.waker, binary.NativeEndian.AppendUint64(nil, 1))
}

// adopt takes the connections that were given.
func (l *loop) adopt() {
	var count [8]byte
	_, _ = unix.Read(l.waker, count[:])
	l.mutex.Lock()
	arrived := l.arrived
	l.arrived = nil
	l.mutex.Unlock()
	for _, descriptor := range arrived {
		// Without it small replies wait for the acknowledgement of earlier ones; a Unix socket does not know it.
		_ = unix.SetsockoptInt(descriptor, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		if err := l.watch(unix.EPOLL_CTL_ADD, descriptor, unix.EPOLLIN); err != nil {
			slog.Warn("a connection was refused", "error", err)
			_ = unix.Close(descriptor)
			continue
		}
		for len(l.connections) <= descriptor {
			l.connections = append(l.connections, nil)
		}
		l.connections[descriptor] = &connection{descriptor: descriptor}
		l.counters.connections.Add(1)
	}
}

// drop closes a connection.
func (l *loop) drop(c *connection) {
	l.connections[c.descriptor] = nil
	_ = unix.Close(c.descriptor) // which takes it out of epoll too
	l.release(c)
	l.counters.connections.Add(-1)
}

func (l *loop) stop() {
	l.stopping.Store(true)
	l.wake()
}

// close is called when run has ended.
func (l *loop) close() {
	l.adopt()
	for _, c := range l.connections {
		if c != nil {
			l.drop(c)
		}
	}
	_ = unix.Close(l.epoll)
	_ = unix.Close(l.waker)
	if l.listener >= 0 {
		_ = unix.Close(l.reserve)
	}
}

// buffer is one for so many bytes of output.
func (l *loop) buffer(least int) []byte {
	if least > l.server.options.Buffer {
		taken := l.large
		l.large = nil
		if taken == nil {
			taken = make([]byte, 0, wire.MaxReply)
		}
		return taken
	}
	if last := len(l.buffers) - 1; last >= 0 {
		taken := l.buffers[last]
		l.buffers = l.buffers[:last]
		return taken
	}
	return make([]byte, 0, l.server.options.Buffer)
}

// release takes a connection's output buffer back.
func (l *loop) release(c *connection) {
	switch {
	case c.output == nil:
	case cap(c.output) == l.server.options.Buffer:
		l.buffers = append(l.buffers, c.output[:0])
	case cap(c.output) == wire.MaxReply:
		l.large = c.output[:0]
	}
	c.output = nil
}
