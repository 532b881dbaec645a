package engines

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"tailor/apps/key-value/internal/dialect"
	"tailor/apps/key-value/internal/record"
)

// peerTimeout bounds connecting to a server that is the engine, and each exchange with it.
const peerTimeout = 5 * time.Second

// peer is an engine that another server is. What one call asks for goes there in one piece.
type peer struct {
	name        string
	dialect     dialect.Dialect
	address     string
	isFull      func(refusal error) bool
	connections chan *peerConnection // at rest; one that failed is connected anew when it is used
}

type peerConnection struct {
	net.Conn // nil: not connected
	buffer   []byte
	unread   []byte // of buffer
}

// newPeer connects once, so that a server that is not there is noticed at the start; compose may start it a little later.
func newPeer(ctx context.Context, name string, speaks dialect.Dialect, options Options, isFull func(error) bool) (Engine, error) {
	p := &peer{
		name: name, dialect: speaks, address: options.Address, isFull: isFull,
		connections: make(chan *peerConnection, options.Connections),
	}
	for range options.Connections {
		p.connections <- &peerConnection{}
	}
	for {
		_, err := p.usage()
		if err == nil {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// exchange sends a request and lets receive read the replies to it.
func (p *peer) exchange(request []byte, receive func(c *peerConnection) error) (err error) {
	c := <-p.connections
	defer func() {
		if err != nil && c.Conn != nil {
			_ = c.Conn.Close()
			c.Conn = nil
		}
		p.connections <- c
	}()
	if c.Conn == nil {
		c.unread = nil
		if c.Conn, err = net.DialTimeout("tcp", p.address, peerTimeout); err != nil {
			return err
		}
	}
	if err := c.SetDeadline(time.Now().Add(peerTimeout)); err != nil {
		return err
	}
	if _, err := c.Write(request); err != nil {
		return err
	}
	return receive(c)
}

// reply reads until decode finds a reply.
func (c *peerConnection) reply(decode func(input []byte) (size int, err error)) error {
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
			copy(c.buffer, c.unread)
		}
		count, err := c.Read(c.buffer[kept:])
		if err != nil {
			return err
		}
		c.unread = c.buffer[:kept+count]
	}
}

func (p *peer) Get(keys []uint64, into [][]byte, found []bool) error {
	return p.exchange(p.dialect.Get(nil, keys), func(c *peerConnection) error {
		return c.reply(func(input []byte) (int, error) { return p.dialect.GetReply(input, keys, into, found) })
	})
}

func (p *peer) Put(keys []uint64, values [][]byte) (stored int, err error) {
	var refusal error
	replies := p.dialect.Puts(len(keys))
	err = p.exchange(p.dialect.Put(nil, keys, values), func(c *peerConnection) error {
		for range replies {
			err := c.reply(func(input []byte) (int, error) {
				size, refused, err := p.dialect.PutReply(input)
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
				return err
			}
		}
		return nil
	})
	if err == nil && refusal != nil {
		err = refusal
		if p.isFull(refusal) {
			err = ErrFull
		}
	}
	return stored, err
}

// Commit has nothing to do: how durable a put is, is the server's to say.
func (p *peer) Commit() error { return nil }

func (p *peer) usage() (usage dialect.Usage, err error) {
	err = p.exchange(p.dialect.Usage(nil), func(c *peerConnection) error {
		return c.reply(func(input []byte) (size int, err error) {
			usage, size, err = p.dialect.UsageReply(input)
			return size, err
		})
	})
	return usage, err
}

func (p *peer) Stats() Stats {
	usage, err := p.usage()
	s := Stats{Engine: p.name, Records: usage.Records}
	if err != nil {
		s.Problem = fmt.Sprintf("%s at %s: %v", p.name, p.address, err)
	}
	return s
}

func (p *peer) Close() error {
	for range cap(p.connections) {
		if c := <-p.connections; c.Conn != nil {
			_ = c.Conn.Close()
		}
	}
	return nil
}

func hasPrefix(prefix string) func(error) bool {
	return func(refusal error) bool { return strings.HasPrefix(refusal.Error(), prefix) }
}
