package dialect

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"tailor/apps/key-value/internal/record"
)

// Redis is the protocol RESP 2 (redis.io/docs/reference/protocol-spec). Keys are decimal numbers, as users of redis
// write them.
type Redis struct{}

// valueHeader is the line before a value: its length.
var valueHeader = []byte("$" + strconv.Itoa(record.Size) + "\r\n")

// Get implements Dialect.
func (Redis) Get(to []byte, keys []uint64) []byte {
	if len(keys) == 1 {
		return appendBulkKey(append(to, "*2\r\n$3\r\nGET\r\n"...), keys[0])
	}
	to = appendArray(to, len(keys)+1)
	to = append(to, "$4\r\nMGET\r\n"...)
	for _, key := range keys {
		to = appendBulkKey(to, key)
	}
	return to
}

// Put implements Dialect.
func (Redis) Put(to []byte, keys []uint64, values [][]byte) []byte {
	if len(keys) == 1 {
		to = append(to, "*3\r\n$3\r\nSET\r\n"...)
	} else {
		to = appendArray(to, 2*len(keys)+1)
		to = append(to, "$4\r\nMSET\r\n"...)
	}
	for i, key := range keys {
		to = appendBulkKey(to, key)
		to = append(to, valueHeader...)
		to = append(to, values[i]...)
		to = append(to, "\r\n"...)
	}
	return to
}

// Puts implements Dialect.
func (Redis) Puts(int) int { return 1 }

func appendArray(to []byte, length int) []byte {
	to = append(to, '*')
	to = strconv.AppendInt(to, int64(length), 10)
	return append(to, "\r\n"...)
}

func appendBulkKey(to []byte, key uint64) []byte {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], key, 10)
	to = append(to, '$')
	to = strconv.AppendInt(to, int64(len(text)), 10)
	to = append(to, "\r\n"...)
	to = append(to, text...)
	return append(to, "\r\n"...)
}

// GetReply implements Dialect.
func (Redis) GetReply(input []byte, keys []uint64, into [][]byte, found []bool) (int, error) {
	at := 0
	if len(keys) != 1 {
		text, size := line(input)
		if size == 0 {
			return 0, nil
		}
		if string(text) != "*"+strconv.Itoa(len(keys)) {
			return 0, malformed("redis", input)
		}
		at = size
	}
	for i := range keys {
		rest := input[at:]
		if bytes.HasPrefix(rest, valueHeader) {
			end := len(valueHeader) + record.Size
			if len(rest) < end+2 {
				return 0, nil
			}
			if into != nil {
				copy(into[i], rest[len(valueHeader):end])
			}
			found[i] = true
			at += end + 2
			continue
		}
		text, size := line(rest)
		switch {
		case size == 0:
			return 0, nil
		case string(text) == "$-1":
			found[i] = false
			at += size
		default:
			return 0, malformed("redis", rest)
		}
	}
	return at, nil
}

// PutReply implements Dialect.
func (Redis) PutReply(input []byte) (size int, refused, err error) {
	text, size := line(input)
	switch {
	case size == 0:
		return 0, nil, nil
	case string(text) == "+OK":
		return size, nil, nil
	case len(text) > 0 && text[0] == '-':
		return size, errors.New(string(text[1:])), nil
	default:
		return 0, nil, malformed("redis", input)
	}
}

// Usage implements Dialect.
func (Redis) Usage(to []byte) []byte { return append(to, "*2\r\n$4\r\nINFO\r\n$3\r\nall\r\n"...) }

// UsageReply implements Dialect.
func (Redis) UsageReply(input []byte) (Usage, int, error) {
	text, size := line(input)
	if size == 0 {
		return Usage{}, 0, nil
	}
	length, err := strconv.Atoi(string(bytes.TrimPrefix(text, []byte("$"))))
	if err != nil || length < 0 {
		return Usage{}, 0, malformed("redis", input)
	}
	if len(input) < size+length+2 {
		return Usage{}, 0, nil
	}
	body := input[size : size+length]
	var usage Usage
	for _, name := range []string{"used_cpu_user:", "used_cpu_sys:"} {
		seconds, err := numberAfter(body, name)
		if err != nil {
			return Usage{}, 0, err
		}
		usage.CPUSeconds += seconds
	}
	if records, err := numberAfter(body, "db0:keys="); err == nil { // without records there is no such line
		usage.Records = int64(records)
	}
	return usage, size + length + 2, nil
}

// numberAfter is the number that stands behind a name.
func numberAfter(text []byte, name string) (float64, error) {
	_, rest, isThere := bytes.Cut(text, []byte(name))
	if !isThere {
		return 0, fmt.Errorf("no %q in the server's state", name)
	}
	end := bytes.IndexAny(rest, ",\r\n")
	if end < 0 {
		end = len(rest)
	}
	return strconv.ParseFloat(string(rest[:end]), 64)
}
