package loadgen

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// connection is a kept connection to the target.
//
// It is written and read by the goroutine of one request at a time.  net/http's client gives every connection two
// goroutines of its own, and handing each request over and back took two thirds of the generator's processor time
// and made it late where processors were busy.
type connection struct {
	net.Conn
	raw    syscall.RawConn
	reader *bufio.Reader
}

const readBuffer = 16 << 10

// connections is the pool: as many as there were requests in flight at once, the last used first.  None is closed for
// being idle; the service decides about that.
type connections struct {
	address string
	secured *tls.Config // nil: not encrypted
	lock    sync.Mutex
	idle    []*connection
	open    map[*connection]struct{}
	stopped bool
}

func newConnections(address string, secured *tls.Config) *connections {
	return &connections{address: address, secured: secured, open: map[*connection]struct{}{}}
}

var errStopped = errors.New("stopped")

// kept is an idle connection that the service has not closed, or nil.
func (pool *connections) kept() *connection {
	for {
		pool.lock.Lock()
		last := len(pool.idle) - 1
		if last < 0 {
			pool.lock.Unlock()
			return nil
		}
		candidate := pool.idle[last]
		pool.idle = pool.idle[:last]
		pool.lock.Unlock()
		if candidate.silent() {
			return candidate
		}
		pool.drop(candidate)
	}
}

// silent says whether nothing waits to be read: neither a close nor bytes that no request asked for.
func (c *connection) silent() bool {
	var problem error
	err := c.raw.Read(func(descriptor uintptr) bool {
		var one [1]byte
		_, _, problem = syscall.Recvfrom(int(descriptor), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && errors.Is(problem, syscall.EAGAIN)
}

func (pool *connections) dial(ctx context.Context, deadline time.Time) (*connection, error) {
	dialer := net.Dialer{Deadline: deadline}
	dialled, err := dialer.DialContext(ctx, "tcp", pool.address)
	if err != nil {
		return nil, err
	}
	raw, err := dialled.(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, errors.Join(err, dialled.Close())
	}
	if pool.secured != nil {
		encrypted := tls.Client(dialled, pool.secured)
		if err := errors.Join(dialled.SetDeadline(deadline), encrypted.HandshakeContext(ctx)); err != nil {
			return nil, errors.Join(err, dialled.Close())
		}
		dialled = encrypted
	}
	made := &connection{Conn: dialled, raw: raw, reader: bufio.NewReaderSize(dialled, readBuffer)}
	pool.lock.Lock()
	defer pool.lock.Unlock()
	if pool.stopped {
		return nil, errors.Join(errStopped, dialled.Close())
	}
	pool.open[made] = struct{}{}
	return made, nil
}

func (pool *connections) keep(used *connection) {
	pool.lock.Lock()
	defer pool.lock.Unlock()
	pool.idle = append(pool.idle, used)
}

func (pool *connections) drop(used *connection) {
	pool.lock.Lock()
	delete(pool.open, used)
	pool.lock.Unlock()
	_ = used.Close() // nothing more is wanted of it
}

// stop ends every exchange and lets no connection be made any more.
func (pool *connections) stop() {
	pool.lock.Lock()
	defer pool.lock.Unlock()
	pool.stopped = true
	for each := range pool.open {
		_ = each.Close() // whoever reads from it gets the error
	}
}

// errUnanswered wraps an error that came before the first byte of a reply.
type errUnanswered struct{ error }

func (e errUnanswered) Unwrap() error { return e.error }

// answer reads the header of the final reply.
func (c *connection) answer(method string) (*http.Response, error) {
	if _, err := c.reader.Peek(1); err != nil {
		return nil, errUnanswered{err}
	}
	for {
		reply, err := http.ReadResponse(c.reader, &http.Request{Method: method})
		if err != nil || reply.StatusCode >= 200 {
			return reply, err
		}
		// 100 Continue, 103 Early Hints: the reply follows.
	}
}

// wire is a request as it goes over a connection; the content of a file is shared by all requests that send it.
type wire struct {
	method   string
	text     []byte
	content  []byte // after the text
	keepBody bool   // of the reply
}

// exchange uses a kept connection or else a new one.  handed is called when the request is given to a kept one; on a
// new one that moment comes after the service accepted it, which is the service's time and not the generator's lag.
// A GET or HEAD is repeated when the service closed the kept connection just then, as any HTTP client does.
func (pool *connections) exchange(ctx context.Context, request *wire, deadline time.Time, handed func()) (reply, error) {
	if kept := pool.kept(); kept != nil {
		handed()
		got, err := pool.over(kept, request, deadline)
		var unanswered errUnanswered
		repeatable := request.method == http.MethodGet || request.method == http.MethodHead
		if !repeatable || !errors.As(err, &unanswered) || classify(err) == reasonTimeout || ctx.Err() != nil {
			return got, err
		}
	}
	made, err := pool.dial(ctx, deadline)
	if err != nil {
		return reply{}, err
	}
	return pool.over(made, request, deadline)
}

// over sends a request over a connection, which then goes back to the pool or is closed.
func (pool *connections) over(c *connection, request *wire, deadline time.Time) (reply, error) {
	var got reply
	reusable, err := false, c.SetDeadline(deadline)
	if err == nil {
		got, reusable, err = c.exchange(request)
	}
	if reusable {
		pool.keep(c)
	} else {
		pool.drop(c)
	}
	return got, err
}

// exchange sends a request and reads its reply to the end, so that a truncated one shows.  The body is returned only
// if it is needed to judge the reply.  Status is 0 where no header of a reply came.
func (c *connection) exchange(request *wire) (got reply, reusable bool, err error) {
	if err = c.send(request); err != nil {
		return got, false, errUnanswered{err}
	}
	answer, err := c.answer(request.method)
	if err != nil {
		return got, false, err
	}
	got = reply{status: answer.StatusCode, header: answer.Header}
	got.body, err = readBody(answer, request.keepBody)
	return got, err == nil && !answer.Close && c.reader.Buffered() == 0, err
}

func (c *connection) send(request *wire) error {
	if len(request.content) == 0 {
		_, err := c.Write(request.text)
		return err
	}
	both := net.Buffers{request.text, request.content}
	_, err := both.WriteTo(c.Conn) // in one system call where nothing is encrypted
	return err
}

// readBody reads a body to its end.
func readBody(reply *http.Response, keep bool) ([]byte, error) {
	if !keep {
		_, err := io.Copy(io.Discard, reply.Body)
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errTooLarge
	}
	return body, err
}
