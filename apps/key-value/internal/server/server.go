// Package server answers the binary protocol: a few loops, each with its own connections, which it waits for with
// epoll, and a thread of the system while it works. Buffers belong to the loops: a connection that is idle has none,
// and one whose peer is slow keeps what is left of its input and output.
//
// A turn of a connection reads once, answers all requests that are complete, and writes once. Where puts have to be
// committed, their replies wait for the end of the round over all connections that are ready, so that one commit serves
// all of them.
package server

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/socket"
)

// backlog is how many connections may wait to be accepted; the kernel's somaxconn bounds it too.
const backlog = 1 << 14

// Span is told of one request in Options.SpanEvery: what it was and when.
type Span func(operation string, keys int, start, end time.Time)

// Options say how a server works.
type Options struct {
	Address   string // host:port, or unix:/path of a socket
	Threads   int
	Batch     int // most keys that an engine is asked for at once
	Buffer    int // bytes that are read, and written, at once
	Span      Span
	SpanEvery int           // requests for each that Span is told of; 0: none
	Stats     func() []byte // what a request for stats is answered
}

// Server is a running server.
type Server struct {
	engine   engines.Engine
	options  Options
	listener int
	unix     string // path of the socket
	loops    []*loop
	running  sync.WaitGroup
}

// Start listens and answers in the background.
func Start(engine engines.Engine, options Options) (*Server, error) {
	if options.Threads < 1 || options.Batch < 1 || options.Buffer < minBuffer {
		return nil, fmt.Errorf("%d threads, batch %d, buffer %d: allowed are at least 1, 1, %d",
			options.Threads, options.Batch, options.Buffer, minBuffer)
	}
	s := &Server{engine: engine, options: options}
	if err := s.listen(options.Address); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", options.Address, err)
	}
	for range options.Threads {
		l, err := newLoop(s)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.loops = append(s.loops, l)
	}
	if err := s.loops[0].watchListener(s.listener); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for _, l := range s.loops {
		s.running.Go(l.run)
	}
	return s, nil
}

func (s *Server) listen(address string) (err error) {
	family, bound, err := socket.Address(address)
	if err != nil {
		return err
	}
	s.listener, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		s.unix = path
		_ = os.Remove(path) // left by a server that was killed
	} else if err := unix.SetsockoptInt(s.listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if err := unix.Bind(s.listener, bound); err != nil {
		return err
	}
	return unix.Listen(s.listener, backlog)
}

// Address is where the server listens, with the port that the kernel chose where none was asked for.
func (s *Server) Address() string {
	bound, err := unix.Getsockname(s.listener)
	if err != nil {
		return s.options.Address
	}
	switch at := bound.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(at.Addr), uint16(at.Port)).String()
	default:
		return s.options.Address
	}
}

// Threads is how many answer.
func (s *Server) Threads() int { return len(s.loops) }

// Counts are sums over all threads since the start.
func (s *Server) Counts() Counts {
	sum := Counts{GetLatency: newHistogram(), PutLatency: newHistogram()}
	for _, l := range s.loops {
		sum.add(&l.counters)
	}
	return sum
}

// Close stops answering, closes all connections and waits for the threads.
func (s *Server) Close() error {
	for _, l := range s.loops {
		l.stop()
	}
	s.running.Wait()
	for _, l := range s.loops {
		l.close()
	}
	err := unix.Close(s.listener)
	if s.unix != "" {
		_ = os.Remove(s.unix)
	}
	return err
}
