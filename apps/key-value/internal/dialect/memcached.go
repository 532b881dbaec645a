package dialect

import (
	"bytes"
	"errors"
	"strconv"

	"tailor/apps/key-value/internal/record"
)

// Memcached is the text protocol: a value by a meta command, several by get, which has one reply (memcached,
// doc/protocol.txt). Keys are decimal numbers.
type Memcached struct{}

var (
	metaHeader = []byte("VA " + strconv.Itoa(record.Size) + "\r\n")
	metaMiss   = []byte("EN\r\n")
	metaStored = []byte("HD\r\n")
	ending     = []byte("END\r\n")
)

// Get implements Dialect.
func (Memcached) Get(to []byte, keys []uint64) []byte {
	if len(keys) == 1 {
		to = append(to, "mg "...)
		to = strconv.AppendUint(to, keys[0], 10)
		return append(to, " v\r\n"...)
	}
	to = append(to, "get"...)
	for _, key := range keys {
		to = append(to, ' ')
		to = strconv.AppendUint(to, key, 10)
	}
	return append(to, "\r\n"...)
}

// Put implements Dialect.
func (Memcached) Put(to []byte, keys []uint64, values [][]byte) []byte {
	for i, key := range keys {
		to = append(to, "ms "...)
		to = strconv.AppendUint(to, key, 10)
		to = append(to, " "...)
		to = strconv.AppendInt(to, record.Size, 10)
		to = append(to, "\r\n"...)
		to = append(to, values[i]...)
		to = append(to, "\r\n"...)
	}
	return to
}

// Puts implements Dialect.
func (Memcached) Puts(keys int) int { return keys }

// GetReply implements Dialect.
func (Memcached) GetReply(input []byte, keys []uint64, into [][]byte, found []bool) (int, error) {
	if len(keys) != 1 {
		return severalValues(input, keys, into, found)
	}
	if bytes.HasPrefix(input, metaHeader) {
		end := len(metaHeader) + record.Size
		if len(input) < end+2 {
			return 0, nil
		}
		if into != nil {
			copy(into[0], input[len(metaHeader):end])
		}
		found[0] = true
		return end + 2, nil
	}
	if bytes.HasPrefix(input, metaMiss) {
		found[0] = false
		return len(metaMiss), nil
	}
	if _, size := line(input); size == 0 {
		return 0, nil
	}
	return 0, malformed("memcached", input)
}

// severalValues decodes the reply to get: those that are there, in the order of the keys.
func severalValues(input []byte, keys []uint64, into [][]byte, found []bool) (int, error) {
	clear(found[:len(keys)])
	at, next := 0, 0
	for {
		rest := input[at:]
		if bytes.HasPrefix(rest, ending) {
			return at + len(ending), nil
		}
		text, size := line(rest)
		if size == 0 {
			return 0, nil
		}
		fields := bytes.Fields(text)
		if len(fields) != 4 || string(fields[0]) != "VALUE" || string(fields[3]) != strconv.Itoa(record.Size) {
			return 0, malformed("memcached", rest)
		}
		key, err := strconv.ParseUint(string(fields[1]), 10, 64)
		for err == nil && next < len(keys) && keys[next] != key {
			next++
		}
		if err != nil || next == len(keys) {
			return 0, malformed("memcached", rest)
		}
		if len(rest) < size+record.Size+2 {
			return 0, nil
		}
		if into != nil {
			copy(into[next], rest[size:size+record.Size])
		}
		found[next] = true
		next++
		at += size + record.Size + 2
	}
}

// PutReply implements Dialect.
func (Memcached) PutReply(input []byte) (size int, refused, err error) {
	if bytes.HasPrefix(input, metaStored) {
		return len(metaStored), nil, nil
	}
	text, size := line(input)
	switch {
	case size == 0:
		return 0, nil, nil
	case bytes.HasPrefix(text, []byte("NS")), bytes.HasPrefix(text, []byte("SERVER_ERROR")):
		return size, errors.New(string(text)), nil
	default:
		return 0, nil, malformed("memcached", input)
	}
}

// Usage implements Dialect.
func (Memcached) Usage(to []byte) []byte { return append(to, "stats\r\n"...) }

// UsageReply implements Dialect.
func (Memcached) UsageReply(input []byte) (Usage, int, error) {
	end := bytes.Index(input, ending)
	if end < 0 {
		return Usage{}, 0, nil
	}
	body := input[:end]
	var usage Usage
	for _, name := range []string{"STAT rusage_user ", "STAT rusage_system "} {
		seconds, err := numberAfter(body, name)
		if err != nil {
			return Usage{}, 0, err
		}
		usage.CPUSeconds += seconds
	}
	records, err := numberAfter(body, "STAT curr_items ")
	usage.Records = int64(records)
	return usage, end + len(ending), err
}
