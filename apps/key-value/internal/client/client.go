// Package client asks a key-value server one thing after the other, and waits for each answer: for engines that are
// servers, for tasks, and for questions about a server under load.
package client

import (
	"net"
	"strings"
	"time"

	"tailor/apps/key-value/internal/dialect"
	"tailor/apps/key-value/internal/record"
)

// Connection is for one goroutine. After an error it is of no use any more.
type Connection struct {
	dialect    dialect.Dialect
	connection net.Conn
	timeout    time.Duration // of connecting, and of each exchange
	output     []byte
	buffer     []byte
	unread     []byte // of buffer
}

// Dial connects to host:port, or to unix:/path of a socket.
func Dial(address string, speaks dialect.Dialect, timeout time.Duration) (*Connection, error) {
	network := "tcp"
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		network, address = "unix", path
	}
	connection, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &Connection{dialect: speaks, connection: connection, timeout: timeout}, nil
}

// Close ends the connection.
func (c *Connection) Close() { _ = c.connection.Close() }

func (c *Connection) send(request []byte) error {
	c.output = request
	if err := c.connection.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	_, err := c.connection.Write(request)
	return err
}

// receive reads until decode finds a reply.
func (c *Connection) receive(decode func(input []byte) (size int, err error)) error {
	for {
		if len(c.unread) > 0 {
			size, err := decode(c.unread)
			if err != nil {
				return err
			}
			if size > 0 {
				c.unread = c.unread[size:]
				return nil
			}
		}
		kept := copy(c.buffer, c.unread)
		if len(c.buffer)-kept < record.Size {
			c.buffer = append(c.buffer, make([]byte, len(c.buffer)+4*record.PairSize)...)
		}
		count, err := c.connection.Read(c.buffer[kept:])
		if err != nil {
			return err
		}
		c.unread = c.buffer[:kept+count]
	}
}

// Get copies the value of each key into the slice with its number, and says which were found.
func (c *Connection) Get(keys []uint64, into [][]byte, found []bool) error {
	if err := c.send(c.dialect.Get(c.output[:0], keys)); err != nil {
		return err
	}
	return c.receive(func(input []byte) (int, error) { return c.dialect.GetReply(input, keys, into, found) })
}

// Put stores values and says how many of them, in their order, and why the server refused the next one.
func (c *Connection) Put(keys []uint64, values [][]byte) (stored int, refusal, err error) {
	if err := c.send(c.dialect.Put(c.output[:0], keys, values)); err != nil {
		return 0, nil, err
	}
	replies := c.dialect.Puts(len(keys))
	for range replies {
		err := c.receive(func(input []byte) (int, error) {
			size, refused, err := c.dialect.PutReply(input)
			switch {
			case err != nil || size == 0 || refusal != nil:
			case refused != nil:
				refusal = refused
			default:
				stored += len(keys) / replies
			}
			return size, err
		})
		if err != nil {
			return stored, refusal, err
		}
	}
	return stored, refusal, nil
}

// Usage asks for the server's state.
func (c *Connection) Usage() (usage dialect.Usage, err error) {
	if err := c.send(c.dialect.Usage(c.output[:0])); err != nil {
		return usage, err
	}
	err = c.receive(func(input []byte) (size int, err error) {
		usage, size, err = c.dialect.UsageReply(input)
		return size, err
	})
	return usage, err
}
