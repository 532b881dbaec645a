package load

import (
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"tailor/apps/key-value/internal/socket"
	"tailor/apps/key-value/internal/wire"
)

// session is one connection with what it waits for.
type session struct {
	descriptor int
	pending    []byte // that the server did not take yet
	partial    []byte // of a reply
	queue      []waiting
	first      int // of queue
	keys       []uint64
	firstKey   int
	status     int // the worst of the burst
}

// waiting is a request without a reply.
type waiting struct {
	isGet   bool
	replies int // that are still to come
	count   int // keys
	refused int // of them
	due     time.Duration
}

func (s *session) expect(request waiting, batch []uint64) {
	if 2*s.first >= len(s.queue) { // what was answered makes room
		s.queue, s.first = append(s.queue[:0], s.queue[s.first:]...), 0
		s.keys, s.firstKey = append(s.keys[:0], s.keys[s.firstKey:]...), 0
	}
	s.queue = append(s.queue, request)
	s.keys = append(s.keys, batch...)
}

// send sends the output on a connection, behind what that has to send already.
func (w *worker) send(s *session) error {
	if len(s.pending) > 0 {
		s.pending = append(s.pending, w.output...)
		return nil
	}
	rest, err := push(s, w.output)
	if err != nil || len(rest) == 0 {
		return err
	}
	s.pending = append([]byte(nil), rest...)
	return w.watch(unix.EPOLL_CTL_MOD, s.descriptor, unix.EPOLLIN|unix.EPOLLOUT)
}

// push sends more of what is pending.
func (w *worker) push(s *session) error {
	rest, err := push(s, s.pending)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		s.pending = rest
		return nil
	}
	s.pending = nil
	return w.watch(unix.EPOLL_CTL_MOD, s.descriptor, unix.EPOLLIN)
}

func push(s *session, data []byte) (rest []byte, err error) {
	for len(data) > 0 {
		count, err := socket.Write(s.descriptor, data)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			return nil, err
		}
		data = data[count:]
	}
	return data, nil
}

var errClosed = errors.New("the server closed a connection")

// receive reads replies; when all of a burst are there, the next one is sent.
func (w *worker) receive(s *session) error {
	kept := copy(w.input, s.partial)
	count, err := socket.Read(s.descriptor, w.input[kept:], nil)
	if err == unix.EAGAIN || err == unix.EINTR {
		return nil
	}
	if err != nil {
		return err
	}
	if count == 0 {
		return errClosed
	}
	input := w.input[:kept+count]
	now := time.Since(w.phase.start)
	for len(input) > 0 && s.first < len(s.queue) {
		size, err := w.reply(s, input, now)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		input = input[size:]
	}
	s.partial = append(s.partial[:0], input...)
	if s.first == len(s.queue) && !w.isOpen() && !w.stopped {
		return w.burst(s)
	}
	return nil
}

// reply decodes one reply, and notes the request that it completes.
func (w *worker) reply(s *session, input []byte, now time.Duration) (size int, err error) {
	request := &s.queue[s.first]
	keys := s.keys[s.firstKey : s.firstKey+request.count]
	var refused error
	if request.isGet {
		size, err = w.dialect.GetReply(input, keys, w.places, w.found)
	} else {
		size, refused, err = w.dialect.PutReply(input)
	}
	if err != nil || size == 0 {
		return 0, err
	}
	if refused != nil {
		s.status = someRefused
		keys := request.count / w.dialect.Puts(request.count)
		request.refused += keys
		w.result.refuse(keys, refused)
	}
	if request.replies--; request.replies > 0 {
		return size, nil
	}
	s.first++
	s.firstKey += request.count
	w.outstanding--
	w.note(s, request, keys, input[:size], now)
	if w.plan.Log != "" && !w.phase.fill && (w.isOpen() || s.first == len(s.queue)) {
		w.lines.add(w.phase.start.Add(request.due), s.status, now-request.due)
		s.status = allGood
	}
	return size, nil
}

func (w *worker) note(s *session, request *waiting, keys []uint64, reply []byte, now time.Duration) {
	into := &w.puts
	if request.isGet {
		into = &w.gets
		w.result.gets.Add(int64(request.count))
		for i, found := range w.found[:request.count] {
			if !found {
				s.status = max(s.status, someMissing)
				w.result.misses.Add(1)
			} else if w.places != nil && binary.LittleEndian.Uint64(w.places[i]) != keys[i] {
				w.result.wrong.Add(1)
			}
		}
	} else {
		w.result.puts.Add(int64(request.count - request.refused))
	}
	if !w.phase.recording.Load() || request.refused > 0 {
		return
	}
	into.external.Record(now-request.due, 1)
	if w.plan.Internal {
		if decoded, _, err := wire.NextReply(reply); err == nil {
			into.internal.Record(time.Duration(decoded.LatencyNS), 1)
		}
	}
}
