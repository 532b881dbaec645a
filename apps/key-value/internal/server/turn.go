package server

import (
	"encoding/binary"
	"errors"
	"time"

	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/record"
	"tailor/apps/key-value/internal/wire"
)

// minBuffer holds the reply to a request for one value.
const minBuffer = 4 << 10

// timedRuns is one in how many runs is measured for the histograms; those whose replies carry a latency always are.
const timedRuns = 16

// turn answers the requests of one connection after the other. Neighbouring gets, or puts, make a run, for which the
// engine is called once: it can look keys up side by side, or send them to another server at once. The latency of each
// request of a run is that of the run.
type turn struct {
	loop        *loop
	op          wire.Op // of the run
	frames      []frame
	keys        []uint64
	places      [][]byte // where the values go, in the output, or come from, in the input
	found       []bool
	uncommitted []timing

	runs      int
	untilSpan int // requests
	origin    time.Time
}

// frame is a request of a run.
type frame struct {
	id    uint32
	flags uint8
	count int
	at    int // of its reply in the output
}

// timing is of a put whose latency is known when it is committed.
type timing struct {
	connection *connection
	at         int // of the latency in the output; -1: nowhere
	frames     int
	start      time.Duration
}

func (t *turn) prepare(l *loop) {
	t.loop = l
	t.origin = time.Now()
	t.untilSpan = l.server.options.SpanEvery
	t.keys = make([]uint64, 0, wire.MaxCount)
	t.places = make([][]byte, 0, wire.MaxCount)
	t.found = make([]bool, wire.MaxCount)
}

// answer appends replies to the requests of input to the connection's output, until they are answered, the peer takes
// no more, or the stream cannot be followed. It is not alive when the connection is to be dropped.
func (t *turn) answer(c *connection, input []byte) (consumed int, alive bool) {
	for len(c.pending) == 0 && !c.ending {
		request, size, err := wire.NextRequest(input[consumed:])
		if size == 0 && err == nil {
			break
		}
		consumed += size
		switch {
		case err != nil:
			t.finishRun(c)
			alive = t.reply(c, wire.Bad, err.ID, err.Reason)
			c.ending = err.Fatal
			t.loop.counters.bad.Add(1)
		case request.Op == wire.Stats:
			t.finishRun(c)
			alive = t.reply(c, wire.OK, request.ID, string(t.loop.server.options.Stats()))
		default:
			alive = t.add(c, &request)
		}
		if !alive {
			return consumed, false
		}
	}
	t.finishRun(c)
	return consumed, true
}

// reserve makes room for a reply, for which the run may have to be finished and the output sent.
func (t *turn) reserve(c *connection, size int) bool {
	if c.output != nil && len(c.output)+size > cap(c.output) {
		t.finishRun(c)
		if !t.loop.flush(c) {
			return false
		}
	}
	if c.output == nil {
		c.output = t.loop.buffer(size)
	}
	return true
}

func (t *turn) reply(c *connection, status wire.Status, id uint32, text string) bool {
	if !t.reserve(c, wire.HeaderSize+len(text)) {
		return false
	}
	c.output = wire.AppendReply(c.output, status, 0, id, text)
	return true
}

// add adds a request to the run, after finishing one that it does not fit into.
func (t *turn) add(c *connection, request *wire.Request) bool {
	if len(t.frames) > 0 && (t.op != request.Op || len(t.keys)+request.Count > t.loop.server.options.Batch) {
		t.finishRun(c)
	}
	size := wire.HeaderSize
	if request.Flags&wire.WithLatency != 0 {
		size += wire.LatencySize
	}
	at := size
	if request.Op == wire.Get {
		size += request.Count * record.Size
	}
	if !t.reserve(c, size) {
		return false
	}
	start := len(c.output)
	c.output = c.output[:start+size]
	t.op = request.Op
	t.frames = append(t.frames, frame{request.ID, request.Flags, request.Count, start})
	for number := range request.Count {
		t.keys = append(t.keys, request.Key(number))
		if request.Op == wire.Put {
			t.places = append(t.places, request.Value(number))
			continue
		}
		place := start + at + number*record.Size
		t.places = append(t.places, c.output[place:place+record.Size:place+record.Size])
	}
	return true
}

// finishRun calls the engine for the run and writes its replies.
func (t *turn) finishRun(c *connection) {
	if len(t.frames) == 0 {
		return
	}
	t.runs++
	t.untilSpan -= len(t.frames)
	hasSpan := t.untilSpan <= 0 && t.loop.server.options.SpanEvery > 0
	timed := t.runs%timedRuns == 0
	isTimed := timed || hasSpan
	for i := range t.frames {
		isTimed = isTimed || t.frames[i].flags&wire.WithLatency != 0
	}
	var start time.Duration
	if isTimed {
		start = time.Since(t.origin)
	}
	stored := 0
	if t.op == wire.Get {
		t.get(c)
		t.loop.counters.gets.Add(int64(len(t.keys)))
	} else {
		stored = t.put(c)
		t.loop.counters.puts.Add(int64(stored))
	}
	if isTimed {
		t.measure(c, start, timed, stored)
		if hasSpan {
			t.span(start)
		}
	}
	t.frames, t.keys, t.places = t.frames[:0], t.keys[:0], t.places[:0]
}

// measure notes the run's latency, in its replies and in the histogram; that of puts when they are committed. stored is
// how many were: refused ones are not committed.
func (t *turn) measure(c *connection, start time.Duration, timed bool, stored int) {
	waits := t.op == wire.Put && t.loop.waits
	switch {
	case !timed:
	case t.op == wire.Get:
		t.loop.counters.getLatency.record(time.Since(t.origin)-start, len(t.frames))
	case stored > 0 && waits:
		t.uncommitted = append(t.uncommitted, timing{c, -1, len(t.frames), start})
	case stored > 0:
		t.loop.counters.putLatency.record(time.Since(t.origin)-start, len(t.frames))
	}
	took := uint64(0)
	for i := range t.frames {
		f := &t.frames[i]
		if f.flags&wire.WithLatency == 0 {
			continue
		}
		if waits {
			t.uncommitted = append(t.uncommitted, timing{c, f.at + wire.HeaderSize, 0, start})
			continue
		}
		if took == 0 {
			took = uint64(time.Since(t.origin) - start)
		}
		binary.LittleEndian.PutUint64(c.output[f.at+wire.HeaderSize:], took)
	}
}

// committed is called when all puts before are durable.
func (t *turn) committed() {
	if len(t.uncommitted) == 0 {
		return
	}
	now := time.Since(t.origin)
	for _, put := range t.uncommitted {
		if put.at < 0 {
			t.loop.counters.putLatency.record(now-put.start, put.frames)
		} else if t.loop.connections[put.connection.descriptor] == put.connection {
			binary.LittleEndian.PutUint64(put.connection.output[put.at:], uint64(now-put.start))
		}
	}
	t.forget()
}

// forget lets go of the puts that are committed, or never will be.
func (t *turn) forget() {
	clear(t.uncommitted)
	t.uncommitted = t.uncommitted[:0]
}

func (t *turn) span(start time.Duration) {
	options := &t.loop.server.options
	t.untilSpan = options.SpanEvery
	name := "get"
	if t.op == wire.Put {
		name = "put"
	}
	options.Span(name, len(t.keys), t.origin.Add(start), time.Now())
}

func (t *turn) get(c *connection) {
	hits, err := t.lookUp()
	t.loop.counters.hits.Add(int64(hits))
	if err != nil {
		c.output = c.output[:t.frames[0].at]
		for i := range t.frames {
			f := &t.frames[i]
			f.flags = 0
			c.output = wire.AppendReply(c.output, wire.Failed, 0, f.id, shortened(err, f.count*record.Size))
		}
		return
	}
	if hits == len(t.keys) {
		for i := range t.frames {
			f := &t.frames[i]
			body := f.count*record.Size + f.latencySize()
			wire.PutHeader(c.output[f.at:], uint8(wire.OK), f.flags, f.count, f.id, body)
		}
		return
	}
	t.close(c)
}

func (t *turn) lookUp() (hits int, err error) {
	batch := t.loop.server.options.Batch
	for first := 0; first < len(t.keys); first += batch {
		end := min(first+batch, len(t.keys))
		if err := t.loop.server.engine.Get(t.keys[first:end], t.places[first:end], t.found[first:end]); err != nil {
			return 0, err
		}
	}
	for _, found := range t.found[:len(t.keys)] {
		if found {
			hits++
		}
	}
	return hits, nil
}

// close closes the gaps that missing values left in the output; everything moves towards its beginning.
func (t *turn) close(c *connection) {
	end, key := t.frames[0].at, 0
	for i := range t.frames {
		f := &t.frames[i]
		found := t.found[key : key+f.count]
		header := end
		end += wire.HeaderSize + f.latencySize()
		status := wire.OK
		for number, isFound := range found {
			if isFound {
				end += copy(c.output[end:], t.places[key+number])
			} else {
				status = wire.Partial
			}
		}
		if status == wire.Partial {
			bitmap := c.output[end : end+wire.BitmapSize(f.count)]
			clear(bitmap)
			for number, isFound := range found {
				if isFound {
					bitmap[number/8] |= 1 << (number % 8)
				}
			}
			end += len(bitmap)
		}
		wire.PutHeader(c.output[header:], uint8(status), f.flags, f.count, f.id, end-header-wire.HeaderSize)
		f.at = header
		key += f.count
	}
	c.output = c.output[:end]
}

// put stores the run's values and says how many.
func (t *turn) put(c *connection) (total int) {
	engine := t.loop.server.engine
	status, text := wire.OK, ""
	key, stored := 0, 0 // key: the first of the frame; stored: keys before it are
	end := t.frames[0].at
	c.output = c.output[:end]
	for i := range t.frames {
		f := &t.frames[i]
		if stored < key+f.count && status != wire.Failed {
			count, err := engine.Put(t.keys[key:], t.places[key:])
			stored = key + count
			c.dirty = c.dirty || count > 0 && t.loop.waits
			status, text = statusOf(err)
		}
		mine := min(max(stored-key, 0), f.count)
		total += mine
		switch {
		case mine == f.count:
			f.at = len(c.output)
			c.output = c.output[:f.at+wire.HeaderSize+f.latencySize()]
			wire.PutHeader(c.output[f.at:], uint8(wire.OK), f.flags, mine, f.id, f.latencySize())
		default:
			f.flags = 0
			c.output = wire.AppendReply(c.output, status, mine, f.id, text)
		}
		key += f.count
	}
	return total
}

func statusOf(err error) (wire.Status, string) {
	switch {
	case err == nil:
		return wire.OK, ""
	case errors.Is(err, engines.ErrFull):
		return wire.Full, ""
	default:
		return wire.Failed, shortened(err, maxText)
	}
}

// maxText bounds the text of a failed put.
const maxText = 256

func shortened(err error, most int) string {
	text := err.Error()
	return text[:min(len(text), most)]
}

func (f *frame) latencySize() int {
	if f.flags&wire.WithLatency == 0 {
		return 0
	}
	return wire.LatencySize
}
