package engines

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tailor/apps/key-value/internal/client"
	"tailor/apps/key-value/internal/dialect"
)

// peerTimeout bounds connecting to a server that is the engine, and each exchange with it.
const peerTimeout = 5 * time.Second

// peer is an engine that another server is. What one call asks for goes there in one piece.
type peer struct {
	name        string
	dialect     dialect.Dialect
	address     string
	isFull      func(refusal error) bool
	connections chan *client.Connection // at rest; nil: to be made when it is used
	closed      chan struct{}
}

// newPeer waits until the server answers: compose may start it a little later.
func newPeer(
	ctx context.Context, name string, speaks dialect.Dialect, options Options, isFull func(error) bool,
) (Engine, error) {
	p := &peer{
		name: name, dialect: speaks, address: options.Address, isFull: isFull,
		connections: make(chan *client.Connection, options.Connections), closed: make(chan struct{}),
	}
	for range options.Connections {
		p.connections <- nil
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

// with lends a connection, and lets go of one that failed.
func (p *peer) with(use func(c *client.Connection) error) (err error) {
	var c *client.Connection
	select {
	case c = <-p.connections:
	case <-p.closed:
		return errClosed
	}
	if c == nil {
		if c, err = client.Dial(p.address, p.dialect, peerTimeout); err != nil {
			p.connections <- nil
			return err
		}
	}
	if err = use(c); err != nil {
		c.Close()
		c = nil
	}
	p.connections <- c
	return err
}

func (p *peer) Get(keys []uint64, into [][]byte, found []bool) error {
	return p.with(func(c *client.Connection) error { return c.Get(keys, into, found) })
}

func (p *peer) Put(keys []uint64, values [][]byte) (stored int, err error) {
	var refusal error
	err = p.with(func(c *client.Connection) (err error) {
		stored, refusal, err = c.Put(keys, values)
		return err
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

func (p *peer) CommitsAtOnce() bool { return true }

func (p *peer) usage() (usage dialect.Usage, err error) {
	err = p.with(func(c *client.Connection) (err error) {
		usage, err = c.Usage()
		return err
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

// Close waits for the connections that are lent.
func (p *peer) Close() error {
	close(p.closed)
	for range cap(p.connections) {
		if c := <-p.connections; c != nil {
			c.Close()
		}
	}
	return nil
}

func hasPrefix(prefix string) func(error) bool {
	return func(refusal error) bool { return strings.HasPrefix(refusal.Error(), prefix) }
}
