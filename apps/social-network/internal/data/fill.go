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

// memcached stores values without waiting for each reply; a second goroutine counts the replies.
type memcached struct {
	conn     net.Conn
	writer   *bufio.Writer
	sent     int
	finished chan replies
	length   []byte
}

type replies struct {
	stored, refused int
	err             error
}

func openMemcached(ctx context.Context, address string) (*memcached, error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	m := &memcached{conn: conn, writer: bufio.NewWriterSize(conn, pipelineBuffer), finished: make(chan replies, 1)}
	go func() { m.finished <- countReplies(conn) }()
	return m, nil
}

// countReplies reads until the "MN" that answers "mn", the end of the pipeline.
func countReplies(conn net.Conn) replies {
	var seen replies
	reader := bufio.NewReaderSize(conn, pipelineBuffer)
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			seen.err = err
			return seen
		}
		switch {
		case bytes.HasPrefix(line, []byte("STORED")):
			seen.stored++
		case bytes.HasPrefix(line, []byte("MN")):
			return seen
		case bytes.HasPrefix(line, []byte("SERVER_ERROR out of memory")):
			seen.refused++ // a small cache may refuse; the database still has it
		default:
			seen.err = fmt.Errorf("memcached replied %q", line)
			return seen
		}
	}
}

func (m *memcached) set(key string, value []byte) error {
	m.sent++
	m.writer.WriteString("set ")
	m.writer.WriteString(key)
	m.writer.WriteString(" 0 0 ")
	m.length = strconv.AppendInt(m.length[:0], int64(len(value)), 10)
	m.writer.Write(m.length)
	m.writer.WriteString("\r\n")
	m.writer.Write(value)
	_, err := m.writer.WriteString("\r\n")
	return err // a bufio.Writer keeps its first error, so this one speaks for all
}

// close ends the pipeline, waits for every reply and says what was stored.
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
	if seen.stored+seen.refused != m.sent {
		return "", fmt.Errorf("%d of %d values were answered", seen.stored+seen.refused, m.sent)
	}
	if seen.refused > 0 {
		return fmt.Sprintf("%d stored, %d refused", seen.stored, seen.refused), nil
	}
	return fmt.Sprintf("%d stored", seen.stored), nil
}
