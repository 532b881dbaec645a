package data

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
)

// pipelineBuffer is how much is written before it is sent: few system calls, and little to wait for.
const pipelineBuffer = 1 << 18

// memcached stores values with quiet commands (meta set with flag q): the server answers only what fails, and a
// second goroutine reads that.  An answer to each of a hundred thousand values would take most of the time.
type memcached struct {
	conn     net.Conn
	writer   *bufio.Writer
	sent     int
	finished chan refusals
	length   []byte
}

type refusals struct {
	count int
	err   error
}

func openMemcached(ctx context.Context, address string) (*memcached, error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	m := &memcached{conn: conn, writer: bufio.NewWriterSize(conn, pipelineBuffer), finished: make(chan refusals, 1)}
	go func() { m.finished <- countRefusals(conn) }()
	return m, nil
}

// countRefusals reads until the "MN" that answers "mn", the end of the pipeline.
func countRefusals(conn net.Conn) refusals {
	var seen refusals
	reader := bufio.NewReader(conn)
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			seen.err = err
			return seen
		}
		switch {
		case bytes.HasPrefix(line, []byte("MN")):
			return seen
		case bytes.HasPrefix(line, []byte("SERVER_ERROR out of memory")):
			seen.count++ // a small cache may refuse; the database still has it
		default:
			seen.err = fmt.Errorf("memcached replied %q", line)
			return seen
		}
	}
}

func (m *memcached) set(key string, value []byte) error {
	m.sent++
	m.writer.WriteString("ms ")
	m.writer.WriteString(key)
	m.writer.WriteByte(' ')
	m.length = strconv.AppendInt(m.length[:0], int64(len(value)), 10)
	m.writer.Write(m.length)
	m.writer.WriteString(" q\r\n")
	m.writer.Write(value)
	_, err := m.writer.WriteString("\r\n")
	return err // a bufio.Writer keeps its first error, so this one speaks for all
}

// close ends the pipeline, waits until all of it was read and says what was stored.
func (m *memcached) close() (string, error) {
	defer m.conn.Close()
	m.writer.WriteString("mn\r\n")
	if err := m.writer.Flush(); err != nil {
		return "", err
	}
	seen := <-m.finished
	if seen.err != nil {
		return "", seen.err
	}
	if seen.count > 0 {
		return fmt.Sprintf("%d stored, %d refused", m.sent-seen.count, seen.count), nil
	}
	return fmt.Sprintf("%d stored", m.sent), nil
}
