package server

import (
	"golang.org/x/sys/unix"

	"tailor/apps/key-value/internal/socket"
	"tailor/apps/key-value/internal/wire"
)

// leastPartial is what is allotted at once for an input that is not complete; more follows as more comes, so that a
// peer that announces a long request and sends none of it costs no more.
const leastPartial = 4 << 10

// connection is one client. Its fields are its loop's.
type connection struct {
	descriptor int
	partial    []byte // input: a request that is not complete, or all that waits until pending was sent
	output     []byte // replies of this round, in a buffer of the loop's
	pending    []byte // replies that the peer did not take yet; while there are any, nothing is read
	dirty      bool   // output has replies to puts that are not committed
	ending     bool   // it is closed when everything was sent
}

// receive reads what a connection has sent, and answers.
func (l *loop) receive(c *connection) {
	spare := l.room(c)
	var count int
	var err error
	if len(spare) == 0 {
		count, err = socket.Read(c.descriptor, l.input, nil)
	} else {
		count, err = socket.Read(c.descriptor, spare, l.input)
	}
	if err == unix.EAGAIN || err == unix.EINTR {
		return
	}
	if err != nil || count == 0 {
		l.drop(c)
		return
	}
	l.counters.bytesIn.Add(int64(count))
	c.partial = c.partial[:len(c.partial)+min(count, len(spare))]
	input := l.input[:max(0, count-len(spare))]
	if len(c.partial) > 0 {
		if input = c.complete(input); !l.answer(c, nil) {
			return
		}
	}
	if len(c.partial) > 0 {
		c.partial = append(c.partial, input...)
	} else if len(input) > 0 && !l.answer(c, input) {
		return
	}
	l.finishTurn(c)
}

// room is where the rest of a partial request goes.
func (l *loop) room(c *connection) []byte {
	if len(c.partial) == 0 {
		return nil
	}
	if len(c.partial) == cap(c.partial) {
		l.extend(c, 2*cap(c.partial))
	}
	end := min(cap(c.partial), max(wire.Needed(c.partial), len(c.partial)+1))
	return c.partial[len(c.partial):end]
}

// extend gives a partial input room for so many bytes.
func (l *loop) extend(c *connection, size int) {
	old := c.partial
	if last := len(l.partials) - 1; last >= 0 && size <= leastPartial {
		c.partial = append(l.partials[last], old...)
		l.partials = l.partials[:last]
		return
	}
	c.partial = append(make([]byte, 0, max(size, leastPartial)), old...)
	l.forget(old)
}

// forget takes the buffer of a partial input that was answered.
func (l *loop) forget(partial []byte) {
	if cap(partial) == leastPartial && len(l.partials) < idleBuffers {
		l.partials = append(l.partials, partial[:0])
	}
}

// complete moves bytes from input to the partial request until it is complete, and returns the rest.
func (c *connection) complete(input []byte) []byte {
	for len(input) > 0 {
		missing := min(wire.Needed(c.partial), wire.MaxRequest) - len(c.partial)
		if missing <= 0 {
			break
		}
		taken := min(missing, len(input))
		c.partial = append(c.partial, input[:taken]...)
		input = input[taken:]
	}
	return input
}

// answer answers the requests of input, or those of the connection's partial input, and keeps what it could not answer.
// It is false when the connection was dropped.
func (l *loop) answer(c *connection, input []byte) bool {
	isPartial := input == nil
	if isPartial {
		input = c.partial
	}
	consumed, alive := l.turn.answer(c, input)
	if !alive {
		l.drop(c)
		return false
	}
	rest := input[consumed:]
	switch {
	case len(rest) == 0 || c.ending:
		l.forget(c.partial)
		c.partial = nil
	case isPartial:
		c.partial = append(c.partial[:0], rest...)
	default:
		l.extend(c, len(rest))
		c.partial = append(c.partial, rest...)
	}
	return true
}

// finishTurn sends the replies, or leaves them until the round's puts are committed.
func (l *loop) finishTurn(c *connection) {
	if c.dirty {
		l.waiting = append(l.waiting, c)
		return
	}
	l.send(c)
}

// flush makes room in the output, which may have to be committed first. It is false when the connection is to be
// dropped.
func (l *loop) flush(c *connection) bool {
	if c.dirty && !l.commit() {
		return false
	}
	c.dirty = false
	return l.write(c)
}

// send writes the output, and closes the connection if that was the last of it.
func (l *loop) send(c *connection) {
	if !l.write(c) || c.ending && len(c.pending) == 0 {
		l.drop(c)
	}
}

// write writes the output; what the peer does not take is kept in pending. It is false when the peer is gone.
func (l *loop) write(c *connection) bool {
	if len(c.pending) > 0 { // a reply for which there was no room was made after the peer took no more
		c.pending = append(c.pending, c.output...)
		l.release(c)
		return true
	}
	rest := c.output
	for len(rest) > 0 {
		count, err := socket.Write(c.descriptor, rest)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			return false
		}
		l.counters.bytesOut.Add(int64(count))
		rest = rest[count:]
	}
	if len(rest) > 0 {
		c.pending = append([]byte(nil), rest...)
		if l.watch(unix.EPOLL_CTL_MOD, c.descriptor, unix.EPOLLOUT) != nil {
			return false
		}
	}
	l.release(c)
	return true
}

// drain sends what is pending, then answers the requests that waited for it.
func (l *loop) drain(c *connection) {
	count, err := socket.Write(c.descriptor, c.pending)
	if err == unix.EAGAIN || err == unix.EINTR {
		return
	}
	if err != nil {
		l.drop(c)
		return
	}
	l.counters.bytesOut.Add(int64(count))
	if c.pending = c.pending[count:]; len(c.pending) > 0 {
		return
	}
	c.pending = nil
	if c.ending || l.watch(unix.EPOLL_CTL_MOD, c.descriptor, unix.EPOLLIN) != nil {
		l.drop(c)
		return
	}
	if len(c.partial) > 0 {
		if !l.answer(c, nil) {
			return
		}
	}
	l.finishTurn(c)
}
