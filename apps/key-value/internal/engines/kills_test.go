package engines_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/record"
	"tailor/apps/key-value/internal/server"
	"tailor/apps/key-value/internal/wire"
)

// The variables by which the test's program becomes the server that is killed, and by which more kills are asked for.
const (
	childVariable = "KEY_VALUE_TEST_CHILD" // a directory
	fsyncVariable = "KEY_VALUE_TEST_FSYNC"
	killsVariable = "KEY_VALUE_TEST_KILLS"
)

const (
	shortKills = 45
	clients    = 3
	keysEach   = 40 // of a client, so that keys are overwritten again and again
)

func TestMain(m *testing.M) {
	if directory := os.Getenv(childVariable); directory != "" {
		if err := serve(directory, os.Getenv(fsyncVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// serve is the child: a server that takes snapshots all the time, until it is killed.
func serve(directory, fsync string) error {
	engine, err := engines.Open(context.Background(), "table", engines.Options{
		Records: 1000, Shards: 4, Directory: directory, Fsync: fsync,
		FsyncInterval: 5 * time.Millisecond, SnapshotInterval: 10 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	_, err = server.Start(engine, server.Options{
		Address: "unix:" + filepath.Join(directory, "socket"), Threads: 2, Batch: 8, Buffer: 16 << 10,
	})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

// TestKillsLoseNothingAcknowledged kills a server at random moments, with every way of syncing, and looks after each
// start whether what was acknowledged is there. KEY_VALUE_TEST_KILLS=200 does it more often.
func TestKillsLoseNothingAcknowledged(t *testing.T) {
	kills := shortKills
	if text := os.Getenv(killsVariable); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	policies := []string{"always", "interval", "never"}
	for number, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(uint64(number), 36))
			c := &campaign{directory: t.TempDir(), fsync: policy}
			for kill := range (kills + number) / len(policies) {
				if err := c.life(time.Duration(random.IntN(60_000)) * time.Microsecond); err != nil {
					t.Fatalf("kill %d: %v", kill+1, err)
				}
			}
			t.Logf("%d puts acknowledged over %d lives", c.acknowledged.Load(), c.lives)
		})
	}
}

// campaign is a directory with what clients know of it.
type campaign struct {
	directory, fsync string
	lives            int
	acknowledged     atomic.Int64
	sent, acked      [clients * keysEach]uint64 // versions by key
}

// valueOf is a record whose every word shows key and version.
func valueOf(key, version uint64) []byte {
	value := make([]byte, record.Size)
	for at := 0; at < record.Size; at += 16 {
		binary.LittleEndian.PutUint64(value[at:], version)
		binary.LittleEndian.PutUint64(value[at+8:], key+uint64(at)<<32)
	}
	return value
}

// life starts a server, checks it, puts until it is killed.
func (c *campaign) life(length time.Duration) error {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+c.directory, fsyncVariable+"="+c.fsync)
	var complaints bytes.Buffer
	child.Stderr = &complaints
	output, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	defer func() {
		_ = child.Process.Signal(syscall.SIGKILL)
		_ = child.Wait()
	}()
	if c.lives++; c.lives%6 == 0 { // during the start, recovery included
		time.Sleep(length / 4)
		return nil
	}
	if _, err := io.ReadFull(output, make([]byte, len("ready\n"))); err != nil {
		return fmt.Errorf("the server did not start: %s", complaints.Bytes())
	}
	if err := c.check(); err != nil {
		return err
	}
	var running errgroup.Group
	for number := range clients {
		running.Go(func() error { return c.put(number) })
	}
	time.Sleep(length)
	_ = child.Process.Signal(syscall.SIGKILL)
	return running.Wait()
}

func (c *campaign) dial() (net.Conn, error) {
	return net.Dial("unix", filepath.Join(c.directory, "socket"))
}

// check reads every key: it is at least as new as what was acknowledged, no newer than what was sent, and whole.
func (c *campaign) check() error {
	connection, err := c.dial()
	if err != nil {
		return err
	}
	defer connection.Close()
	keys := make([]uint64, len(c.acked))
	for key := range keys {
		keys[key] = uint64(key)
	}
	if _, err := connection.Write(wire.AppendGet(nil, 1, 0, keys...)); err != nil {
		return err
	}
	reply, err := receive(connection, make([]byte, 0, wire.MaxReply))
	if err != nil {
		return err
	}
	return c.compare(reply)
}

// compare looks at the reply to a get of all keys.
func (c *campaign) compare(reply wire.Reply) error {
	var wrong error
	seen := map[int]bool{}
	err := reply.Values(func(key int, value []byte) {
		seen[key] = true
		version := binary.LittleEndian.Uint64(value)
		switch {
		case !bytes.Equal(value, valueOf(uint64(key), version)):
			wrong = fmt.Errorf("key %d is torn", key)
		case version < c.acked[key] || version > c.sent[key]:
			wrong = fmt.Errorf("key %d has version %d; acknowledged %d, sent %d", key, version, c.acked[key], c.sent[key])
		}
		c.acked[key] = version
	})
	if err := errors.Join(err, wrong); err != nil {
		return err
	}
	for key, version := range c.acked {
		if version > 0 && !seen[key] {
			return fmt.Errorf("key %d is lost; version %d was acknowledged", key, version)
		}
	}
	return nil
}

// TestTheCheckAfterAKillSeesWhatIsWrong with one of the records, before good ones.
func TestTheCheckAfterAKillSeesWhatIsWrong(t *testing.T) {
	torn := valueOf(0, 5)
	torn[record.Size-1]++
	for name, first := range map[string][]byte{
		"torn": torn, "older than acknowledged": valueOf(0, 3), "newer than sent": valueOf(0, 7), "missing": nil,
		"": valueOf(0, 5),
	} {
		c := &campaign{}
		body, bitmap := append([]byte(nil), first...), []byte{0b10}
		if first != nil {
			bitmap[0] |= 1
		}
		for key := range uint64(2) {
			c.acked[key], c.sent[key] = 4, 6
		}
		body = append(append(body, valueOf(1, 5)...), bitmap...)
		if err := c.compare(wire.Reply{Status: wire.Partial, Count: 2, Body: body}); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// put is a client that puts bursts, until the server is gone; an error is a reply that should not be.
func (c *campaign) put(number int) error {
	connection, err := c.dial()
	if err != nil {
		return nil
	}
	defer connection.Close()
	random := rand.New(rand.NewPCG(uint64(number), uint64(c.lives)))
	buffer := make([]byte, 0, wire.MaxReply)
	for {
		var keys []uint64
		var output []byte
		for range 1 + random.IntN(6) {
			key := uint64(number*keysEach + random.IntN(keysEach))
			c.sent[key]++
			output = wire.AppendPut(output, uint32(key), 0, valueOf(key, c.sent[key]), key)
			keys = append(keys, key)
		}
		versions := make([]uint64, len(keys))
		latest := map[uint64]uint64{}
		for i := len(keys) - 1; i >= 0; i-- {
			versions[i] = c.sent[keys[i]] - latest[keys[i]]
			latest[keys[i]]++
		}
		if _, err := connection.Write(output); err != nil {
			return nil
		}
		for i, key := range keys {
			reply, err := receive(connection, buffer)
			if err != nil {
				return nil
			}
			if reply.Status != wire.OK {
				return reply.Failure()
			}
			c.acked[key] = versions[i]
			c.acknowledged.Add(1)
		}
	}
}

// receive reads one reply and nothing behind it.
func receive(connection net.Conn, buffer []byte) (wire.Reply, error) {
	buffer = buffer[:wire.HeaderSize]
	if _, err := io.ReadFull(connection, buffer); err != nil {
		return wire.Reply{}, err
	}
	size := wire.Needed(buffer)
	buffer = buffer[:size]
	if _, err := io.ReadFull(connection, buffer[wire.HeaderSize:]); err != nil {
		return wire.Reply{}, err
	}
	reply, _, err := wire.NextReply(buffer)
	return reply, err
}
