// Package dialect speaks with key-value servers: ours by its binary protocol, redis by RESP 2, memcached by its text
// protocol with meta commands. The engines that stand for such servers use it, and the load generator, so that it asks
// each of them for the same records over the same kind of connection.
package dialect

import (
	"bytes"
	"fmt"
)

// Dialect encodes requests and decodes replies. It has no state.
type Dialect interface {
	// Get appends a request for the values of keys.
	Get(to []byte, keys []uint64) []byte
	// Put appends requests to store values under keys; Puts says how many they are.
	Put(to []byte, keys []uint64, values [][]byte) []byte
	// Puts is how many requests Put makes of so many keys, each with a reply of its own.
	Puts(keys int) int
	// GetReply decodes the reply to a Get of keys that input begins with, copying values into the slices with the keys'
	// numbers (into may be nil: they are left where they are). size is 0 where input has only a part of the reply.
	GetReply(input []byte, keys []uint64, into [][]byte, found []bool) (size int, err error)
	// PutReply decodes the reply to one of the requests of a Put. refused says why a server did not store the record.
	PutReply(input []byte) (size int, refused, err error)
	// Usage appends a request for the server's state.
	Usage(to []byte) []byte
	// UsageReply decodes it. CPU seconds are those that the server's process has used.
	UsageReply(input []byte) (usage Usage, size int, err error)
}

// Usage is what a server says of itself.
type Usage struct {
	CPUSeconds float64
	Records    int64
}

// Of is the dialect with the given name: "native", "redis" or "memcached".
func Of(name string) (Dialect, error) {
	switch name {
	case "native":
		return Native{}, nil
	case "redis":
		return Redis{}, nil
	case "memcached":
		return Memcached{}, nil
	}
	return nil, fmt.Errorf("unknown protocol %q; known are native, redis, memcached", name)
}

// malformed is a reply that is none: the stream cannot be followed any more.
func malformed(server string, input []byte) error {
	return fmt.Errorf("%s replied %q", server, input[:min(len(input), 80)])
}

// line is what stands before the first "\r\n", and how much that is with it; size is 0 where there is none yet.
func line(input []byte) (text []byte, size int) {
	text, _, isWhole := bytes.Cut(input, lineEnd)
	if !isWhole {
		return nil, 0
	}
	return text, len(text) + len(lineEnd)
}

var lineEnd = []byte("\r\n")
