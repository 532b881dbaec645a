package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"tailor/apps/key-value/internal/record"
)

// Reply is a decoded reply; Body refers to the input and has neither header nor latency.
type Reply struct {
	Status    Status
	Count     int
	ID        uint32
	LatencyNS uint64 // 0 where the reply does not carry it
	Body      []byte
}

// NextReply decodes the reply that input begins with. size is the length of its frame, 0 where input has only a part
// of it. An error means that the stream cannot be followed any more.
func NextReply(input []byte) (reply Reply, size int, err error) {
	if len(input) < HeaderSize {
		return Reply{}, 0, nil
	}
	if err := lengthError(input, MaxReply); err != nil {
		return Reply{}, 0, err
	}
	size = Needed(input)
	if len(input) < size {
		return Reply{}, 0, nil
	}
	reply = Reply{
		Status: Status(input[4]),
		Count:  int(binary.LittleEndian.Uint16(input[6:])),
		ID:     binary.LittleEndian.Uint32(input[8:]),
		Body:   input[HeaderSize:size],
	}
	if input[5]&WithLatency != 0 {
		if len(reply.Body) < LatencySize {
			return Reply{}, 0, &Error{ID: reply.ID, Reason: "a reply too short for its latency", Fatal: true}
		}
		reply.LatencyNS = binary.LittleEndian.Uint64(reply.Body)
		reply.Body = reply.Body[LatencySize:]
	}
	return reply, size, nil
}

// Failure says what a reply says that is neither OK nor Partial.
func (r *Reply) Failure() error {
	if len(r.Body) == 0 {
		return errors.New(r.Status.String())
	}
	return fmt.Errorf("%v: %s", r.Status, r.Body)
}

// Values calls visit with the number of each key of a get that has a value, and with that value.
func (r *Reply) Values(visit func(number int, value []byte)) error {
	body := r.Body
	switch r.Status {
	case OK:
		if len(body) != r.Count*record.Size {
			return fmt.Errorf("%d bytes for %d values: needed are %d", len(body), r.Count, r.Count*record.Size)
		}
		for number := range r.Count {
			visit(number, body[number*record.Size:][:record.Size])
		}
		return nil
	case Partial:
		if len(body) < BitmapSize(r.Count) {
			return fmt.Errorf("%d bytes: too few for a bitmap of %d keys", len(body), r.Count)
		}
		values, bitmap := body[:len(body)-BitmapSize(r.Count)], body[len(body)-BitmapSize(r.Count):]
		for number := range r.Count {
			if bitmap[number/8]>>(number%8)&1 == 0 {
				continue
			}
			if len(values) < record.Size {
				return fmt.Errorf("a value is missing, that of key %d of %d", number, r.Count)
			}
			visit(number, values[:record.Size])
			values = values[record.Size:]
		}
		if len(values) != 0 {
			return fmt.Errorf("%d bytes between the last value and the bitmap", len(values))
		}
		return nil
	default:
		return r.Failure()
	}
}

// BitmapSize is the length of the bitmap at the end of a get's reply with the status Partial.
func BitmapSize(count int) int { return (count + 7) / 8 }
