package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/record"
	"tailor/apps/key-value/internal/wire"
)

// fake is an engine whose commits a test may see, hold or fail.
type fake struct {
	engines.Engine
	mutex     sync.Mutex
	commits   int
	committed func() error
	getError  error
	atOnce    bool
}

func (f *fake) Get(keys []uint64, into [][]byte, found []bool) error {
	f.mutex.Lock()
	err := f.getError
	f.mutex.Unlock()
	if err != nil {
		return err
	}
	return f.Engine.Get(keys, into, found)
}

func (f *fake) Commit() error {
	f.mutex.Lock()
	f.commits++
	committed := f.committed
	f.mutex.Unlock()
	if committed != nil {
		return committed()
	}
	return nil
}

// CommitsAtOnce is what a test asks for, whatever the table says.
func (f *fake) CommitsAtOnce() bool { return f.atOnce }

func (f *fake) onCommit(do func() error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.committed = do
}

const capacity = 500

func start(t testing.TB, options Options) (*Server, *fake) {
	t.Helper()
	table, err := engines.Open(t.Context(), "table", engines.Options{Records: capacity, Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	engine := &fake{Engine: table}
	options.Address = "unix:" + filepath.Join(t.TempDir(), "s")
	options.Threads = max(options.Threads, 1)
	options.Batch = max(options.Batch, 1)
	options.Buffer = max(options.Buffer, minBuffer)
	options.Stats = func() []byte { return []byte(`{"cpu_seconds": 1}`) }
	s, err := Start(engine, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), table.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, engine
}

func dial(t testing.TB, s *Server) net.Conn {
	t.Helper()
	network, address := "unix", s.unix
	if s.unix == "" {
		network, address = "tcp", s.Address()
	}
	connection, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(time.Minute))
	return connection
}

// replies reads so many replies, each with a buffer of its own.
func replies(connection io.Reader, count int) ([]wire.Reply, error) {
	var all []wire.Reply
	for range count {
		frame := make([]byte, wire.HeaderSize)
		if _, err := io.ReadFull(connection, frame); err != nil {
			return all, err
		}
		frame = append(frame, make([]byte, wire.Needed(frame)-len(frame))...)
		if _, err := io.ReadFull(connection, frame[wire.HeaderSize:]); err != nil {
			return all, err
		}
		reply, _, err := wire.NextReply(frame)
		if err != nil {
			return all, err
		}
		all = append(all, reply)
	}
	return all, nil
}

func valueOf(key, version uint64) []byte {
	value := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, key<<32+version), record.Size/8)
	return value
}

// client sends random pipelines in random pieces and knows what the replies have to be.
type client struct {
	random *rand.Rand
	first  uint64 // of its keys
	model  map[uint64]uint64
	output []byte
	checks []func(wire.Reply) error
}

func (c *client) key() uint64 { return c.first + c.random.Uint64N(30) }

func (c *client) flags() uint8 { return uint8(c.random.IntN(2)) }

func (c *client) addGet() {
	keys := make([]uint64, 1+c.random.IntN(4)*c.random.IntN(20))
	want := map[int][]byte{}
	for number := range keys {
		keys[number] = c.key()
		if version, isThere := c.model[keys[number]]; isThere {
			want[number] = valueOf(keys[number], version)
		}
	}
	flags := c.flags()
	c.output = wire.AppendGet(c.output, uint32(len(c.checks)), flags, keys...)
	c.checks = append(c.checks, func(reply wire.Reply) error {
		if (reply.LatencyNS > 0) != (flags != 0) {
			return fmt.Errorf("latency %d, flags %d", reply.LatencyNS, flags)
		}
		got := 0
		var wrong error
		err := reply.Values(func(number int, value []byte) {
			got++
			if !bytes.Equal(value, want[number]) {
				wrong = fmt.Errorf("key %d: not the value put last", keys[number])
			}
		})
		if err == nil && (got != len(want) || reply.Count != len(keys)) {
			err = fmt.Errorf("%d values of %d, wanted %d of %d", got, reply.Count, len(want), len(keys))
		}
		return errors.Join(err, wrong)
	})
}

func (c *client) addPut() {
	keys := make([]uint64, 1+c.random.IntN(3)*c.random.IntN(3))
	var values []byte
	for number := range keys {
		keys[number] = c.key()
		c.model[keys[number]]++
		values = append(values, valueOf(keys[number], c.model[keys[number]])...)
	}
	c.output = wire.AppendPut(c.output, uint32(len(c.checks)), c.flags(), values, keys...)
	c.checks = append(c.checks, func(reply wire.Reply) error {
		if reply.Status != wire.OK || reply.Count != len(keys) || len(reply.Body) != 0 {
			return fmt.Errorf("put: %v, count %d of %d, %q", reply.Status, reply.Count, len(keys), reply.Body)
		}
		return nil
	})
}

func (c *client) addOther() {
	status := wire.OK
	if c.random.IntN(2) == 0 {
		c.output = wire.AppendStats(c.output, uint32(len(c.checks)))
	} else {
		status = wire.Bad
		at := len(c.output)
		c.output = wire.AppendGet(c.output, uint32(len(c.checks)), 0, 1)
		c.output[at+4] = 77
	}
	c.checks = append(c.checks, func(reply wire.Reply) error {
		if reply.Status != status || len(reply.Body) == 0 {
			return fmt.Errorf("%v %q", reply.Status, reply.Body)
		}
		return nil
	})
}

func (c *client) run(connection net.Conn) error {
	for range 8 {
		c.output, c.checks = c.output[:0], nil
		for range c.random.IntN(60) {
			switch c.random.IntN(10) {
			case 0:
				c.addOther()
			case 1, 2, 3, 4:
				c.addPut()
			default:
				c.addGet()
			}
		}
		sent := make(chan error, 1)
		go func() {
			output := c.output
			for len(output) > 0 {
				piece := min(len(output), 1+c.random.IntN(30_000))
				if _, err := connection.Write(output[:piece]); err != nil {
					sent <- err
					return
				}
				output = output[piece:]
			}
			sent <- nil
		}()
		got, err := replies(connection, len(c.checks))
		if err := errors.Join(err, <-sent); err != nil {
			return err
		}
		for number, reply := range got {
			if reply.ID != uint32(number) {
				return fmt.Errorf("reply %d has the id %d", number, reply.ID)
			}
			if err := c.checks[number](reply); err != nil {
				return fmt.Errorf("reply %d: %w", number, err)
			}
		}
	}
	return nil
}
