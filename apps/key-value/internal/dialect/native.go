package dialect

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"tailor/apps/key-value/internal/record"
	"tailor/apps/key-value/internal/wire"
)

// Native is our own binary protocol; with WithLatency each reply carries its internal latency.
type Native struct{ WithLatency bool }

func (n Native) flags() uint8 {
	if n.WithLatency {
		return wire.WithLatency
	}
	return 0
}

// Get implements Dialect.
func (n Native) Get(to []byte, keys []uint64) []byte {
	return wire.AppendGet(to, 0, n.flags(), keys...)
}

// Put implements Dialect.
func (n Native) Put(to []byte, keys []uint64, values [][]byte) []byte {
	at := len(to)
	to = wire.AppendPut(to, 0, n.flags(), nil)
	for i, key := range keys {
		to = binary.LittleEndian.AppendUint64(to, key)
		to = append(to, values[i]...)
	}
	wire.PutHeader(to[at:], uint8(wire.Put), n.flags(), len(keys), 0, len(keys)*record.PairSize)
	return to
}

// Puts implements Dialect.
func (Native) Puts(int) int { return 1 }

// GetReply implements Dialect.
func (Native) GetReply(input []byte, keys []uint64, into [][]byte, found []bool) (int, error) {
	reply, size, err := wire.NextReply(input)
	if err != nil || size == 0 {
		return 0, err
	}
	if reply.Count != len(keys) && reply.Status <= wire.Partial {
		return 0, fmt.Errorf("a reply for %d keys, where %d were asked for", reply.Count, len(keys))
	}
	clear(found[:len(keys)])
	err = reply.Values(func(number int, value []byte) {
		found[number] = true
		if into != nil {
			copy(into[number], value)
		}
	})
	return size, err
}

// PutReply implements Dialect.
func (Native) PutReply(input []byte) (size int, refused, err error) {
	reply, size, err := wire.NextReply(input)
	if err != nil || size == 0 {
		return 0, nil, err
	}
	if reply.Status != wire.OK {
		return size, reply.Failure(), nil
	}
	return size, nil, nil
}

// Usage implements Dialect.
func (Native) Usage(to []byte) []byte { return wire.AppendStats(to, 0) }

// UsageReply implements Dialect.
func (Native) UsageReply(input []byte) (Usage, int, error) {
	reply, size, err := wire.NextReply(input)
	if err != nil || size == 0 {
		return Usage{}, 0, err
	}
	var state struct {
		CPUSeconds float64 `json:"cpu_seconds"`
		Engine     struct {
			Records int64 `json:"records"`
		} `json:"engine"`
	}
	if err := json.Unmarshal(reply.Body, &state); err != nil {
		return Usage{}, 0, fmt.Errorf("state of the server: %w", err)
	}
	return Usage{state.CPUSeconds, state.Engine.Records}, size, nil
}
