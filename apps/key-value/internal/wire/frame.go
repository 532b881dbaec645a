// Package wire is the binary protocol of apps/key-value/PROTOCOL.md: frames of requests and replies, which are encoded
// into and decoded from byte slices of the caller.
package wire

import (
	"encoding/binary"
	"fmt"

	"tailor/apps/key-value/internal/record"
)

// HeaderSize is the length of a frame's header, its length field included.
const HeaderSize = 12

// lengthSize is the length of the length field, which counts what follows it.
const lengthSize = 4

// MaxCount is how many keys a request may have.
const MaxCount = 1024

// LatencySize is the length of the internal latency in a reply that carries it.
const LatencySize = 8

// MaxRequest and MaxReply are the lengths of the longest frames.
const (
	MaxRequest = HeaderSize + MaxCount*record.PairSize
	MaxReply   = HeaderSize + LatencySize + MaxCount/8 + MaxCount*record.Size
)

// Op is what a request asks for.
type Op uint8

// Kinds of requests.
const (
	Get   Op = 1 // values of keys
	Put   Op = 2 // values to be stored under keys
	Stats Op = 3 // the server's state as JSON
)

// WithLatency is the flag of a request whose reply is to carry the internal latency, and of such a reply.
const WithLatency = 1

// Status is the first thing that a reply says.
type Status uint8

// Statuses of replies.
const (
	OK      Status = 0
	Partial Status = 1 // of a get: some keys have no value, a bitmap says which have one
	Bad     Status = 2 // the request cannot be understood; text follows
	Full    Status = 3 // of a put: no room for a new key; count is how many were stored
	Failed  Status = 4 // the engine failed; text follows
)

func (s Status) String() string {
	switch s {
	case OK:
		return "ok"
	case Partial:
		return "partial"
	case Bad:
		return "bad request"
	case Full:
		return "full"
	case Failed:
		return "failed"
	default:
		return fmt.Sprintf("status %d", uint8(s))
	}
}

// Error says why a frame is not one. After an error with Fatal the stream cannot be followed any more.
type Error struct {
	ID     uint32
	Reason string
	Fatal  bool
}

func (e *Error) Error() string { return e.Reason }

// Request is a decoded request; Body refers to the input.
type Request struct {
	Op    Op
	Flags uint8
	Count int
	ID    uint32
	Body  []byte
}

// Key is the key with a number below Count.
func (r *Request) Key(number int) uint64 {
	if r.Op == Put {
		return binary.LittleEndian.Uint64(r.Body[number*record.PairSize:])
	}
	return binary.LittleEndian.Uint64(r.Body[number*record.KeySize:])
}

// Value is the value of a put with a number below Count.
func (r *Request) Value(number int) []byte {
	at := number*record.PairSize + record.KeySize
	return r.Body[at : at+record.Size : at+record.Size]
}

// Needed is the length of the frame that input begins with, as soon as its first bytes say it, else HeaderSize.
func Needed(input []byte) int {
	if len(input) < lengthSize {
		return HeaderSize
	}
	return max(HeaderSize, lengthSize+int(binary.LittleEndian.Uint32(input)))
}

// NextRequest decodes the request that input begins with. size is the length of its frame, 0 where input has only a
// part of it; with an error, size is what is to be skipped.
func NextRequest(input []byte) (request Request, size int, err *Error) {
	if len(input) < HeaderSize {
		if len(input) >= lengthSize {
			if err := lengthError(input, MaxRequest); err != nil {
				return Request{}, 0, err
			}
		}
		return Request{}, 0, nil
	}
	request = Request{
		Op:    Op(input[4]),
		Flags: input[5],
		Count: int(binary.LittleEndian.Uint16(input[6:])),
		ID:    binary.LittleEndian.Uint32(input[8:]),
	}
	if err := lengthError(input, MaxRequest); err != nil {
		err.ID = request.ID
		return Request{}, 0, err
	}
	size = Needed(input)
	if len(input) < size {
		return Request{}, 0, nil
	}
	request.Body = input[HeaderSize:size]
	if reason := request.problem(); reason != "" {
		return Request{}, size, &Error{ID: request.ID, Reason: reason}
	}
	return request, size, nil
}

func lengthError(input []byte, most int) *Error {
	length := binary.LittleEndian.Uint32(input)
	if length < HeaderSize-lengthSize || int(length) > most-lengthSize {
		reason := fmt.Sprintf("a frame of length %d: allowed is %d to %d", length, HeaderSize-lengthSize, most-lengthSize)
		return &Error{Reason: reason, Fatal: true}
	}
	return nil
}

func (r *Request) problem() string {
	if r.Flags&^WithLatency != 0 {
		return fmt.Sprintf("flags %#x: allowed are 0 and %d", r.Flags, WithLatency)
	}
	var each int
	switch r.Op {
	case Get:
		each = record.KeySize
	case Put:
		each = record.PairSize
	case Stats:
		if r.Count != 0 || len(r.Body) != 0 {
			return "stats with a body: allowed is none"
		}
		return ""
	default:
		return fmt.Sprintf("operation %d: allowed are %d (get), %d (put) and %d (stats)", r.Op, Get, Put, Stats)
	}
	if r.Count < 1 || r.Count > MaxCount {
		return fmt.Sprintf("%d keys: allowed is 1 to %d", r.Count, MaxCount)
	}
	if len(r.Body) != r.Count*each {
		return fmt.Sprintf("%d bytes for %d keys: needed are %d", len(r.Body), r.Count, r.Count*each)
	}
	return ""
}

// PutHeader writes the header of a request or a reply with a body of the given length: first is its Op or Status.
func PutHeader(into []byte, first, flags uint8, count int, id uint32, body int) {
	binary.LittleEndian.PutUint32(into, uint32(HeaderSize-lengthSize+body))
	into[4] = first
	into[5] = flags
	binary.LittleEndian.PutUint16(into[6:], uint16(count))
	binary.LittleEndian.PutUint32(into[8:], id)
}

// AppendGet appends a request for the values of keys.
func AppendGet(to []byte, id uint32, flags uint8, keys ...uint64) []byte {
	to = appendHeader(to, Get, flags, len(keys), id, len(keys)*record.KeySize)
	for _, key := range keys {
		to = binary.LittleEndian.AppendUint64(to, key)
	}
	return to
}

// AppendPut appends a request to store values, one after the other in values, under keys.
func AppendPut(to []byte, id uint32, flags uint8, values []byte, keys ...uint64) []byte {
	to = appendHeader(to, Put, flags, len(keys), id, len(keys)*record.PairSize)
	for number, key := range keys {
		to = binary.LittleEndian.AppendUint64(to, key)
		to = append(to, values[number*record.Size:(number+1)*record.Size]...)
	}
	return to
}

// AppendStats appends a request for the server's state.
func AppendStats(to []byte, id uint32) []byte { return appendHeader(to, Stats, 0, 0, id, 0) }

func appendHeader(to []byte, op Op, flags uint8, count int, id uint32, body int) []byte {
	var header [HeaderSize]byte
	PutHeader(header[:], uint8(op), flags, count, id, body)
	return append(to, header[:]...)
}

// AppendReply appends a reply without a latency: a status with text, such as an error's.
func AppendReply(to []byte, status Status, count int, id uint32, text string) []byte {
	var header [HeaderSize]byte
	PutHeader(header[:], uint8(status), 0, count, id, len(text))
	return append(append(to, header[:]...), text...)
}
