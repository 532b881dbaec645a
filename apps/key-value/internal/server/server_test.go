package server

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/record"
	"tailor/apps/key-value/internal/wire"
)

// TestPipelinesAreAnsweredInOrder: random pipelines, of several connections at once, with servers of many kinds.
func TestPipelinesAreAnsweredInOrder(t *testing.T) {
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 2))
		s, _ := start(t, Options{
			Threads: 1 + random.IntN(3), Batch: 1 + random.IntN(40), Buffer: minBuffer << random.IntN(5),
		})
		var running sync.WaitGroup
		for number := range uint64(4) {
			c := &client{
				random: rand.New(rand.NewPCG(seed, number)), first: number * 1000, model: map[uint64]uint64{},
			}
			connection := dial(t, s)
			running.Go(func() {
				if err := c.run(connection); err != nil {
					t.Errorf("seed %d, client %d: %v", seed, number, err)
				}
			})
		}
		running.Wait()
	}
}

// TestAClientThatDoesNotReadIsWaitedFor: its requests are answered when it reads, and others are served meanwhile.
func TestAClientThatDoesNotReadIsWaitedFor(t *testing.T) {
	s, _ := start(t, Options{Batch: 8})
	slow, other := dial(t, s), dial(t, s)
	if _, err := other.Write(wire.AppendPut(nil, 1, 0, valueOf(1, 1), 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := replies(other, 1); err != nil {
		t.Fatal(err)
	}
	const count = 20_000 // 20 MB of replies: more than the kernel keeps
	var output []byte
	for number := range uint32(count) {
		output = wire.AppendGet(output, number, 0, 1)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := slow.Write(output)
		sent <- err
	}()
	if _, err := other.Write(wire.AppendGet(nil, 2, 0, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := replies(other, 1); err != nil {
		t.Fatalf("the other client: %v", err)
	}
	got, err := replies(slow, count)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	for number, reply := range got {
		if reply.ID != uint32(number) || reply.Status != wire.OK {
			t.Fatalf("reply %d: id %d, %v", number, reply.ID, reply.Status)
		}
	}
}

// TestRepliesToPutsWaitForTheCommit and to gets do not.
func TestRepliesToPutsWaitForTheCommit(t *testing.T) {
	s, engine := start(t, Options{Threads: 2, Batch: 8})
	release := make(chan struct{})
	engine.onCommit(func() error {
		<-release
		return nil
	})
	writer, reader := dial(t, s), dial(t, s)
	if _, err := writer.Write(wire.AppendPut(nil, 1, wire.WithLatency, valueOf(1, 1), 1)); err != nil {
		t.Fatal(err)
	}
	for { // until the engine has it
		if _, err := reader.Write(wire.AppendGet(nil, 1, 0, 1)); err != nil {
			t.Fatal(err)
		}
		got, err := replies(reader, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Status == wire.OK {
			break
		}
	}
	_ = writer.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := replies(writer, 1); err == nil {
		t.Fatal("a put was acknowledged before it was committed")
	}
	close(release)
	_ = writer.SetReadDeadline(time.Now().Add(time.Minute))
	got, err := replies(writer, 1)
	if err != nil || got[0].Status != wire.OK {
		t.Fatalf("%+v, %v", got, err)
	}
	if got[0].LatencyNS < uint64(10*time.Millisecond) {
		t.Errorf("the latency of %d ns has no wait for the commit in it", got[0].LatencyNS)
	}
}

// TestARoundHasOneCommit: of all its connections.
func TestARoundHasOneCommit(t *testing.T) {
	s, engine := start(t, Options{Batch: 8})
	hold, arrived := make(chan struct{}), make(chan struct{}, 100)
	engine.onCommit(func() error {
		arrived <- struct{}{}
		<-hold
		return nil
	})
	var connections []net.Conn
	for number := range uint64(6) {
		connection := dial(t, s)
		if _, err := connection.Write(wire.AppendPut(nil, 1, 0, valueOf(number, 1), number)); err != nil {
			t.Fatal(err)
		}
		connections = append(connections, connection)
		if number == 0 {
			<-arrived // the others come while this one is committed
		}
	}
	close(hold)
	for _, connection := range connections {
		if got, err := replies(connection, 1); err != nil || got[0].Status != wire.OK {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	engine.mutex.Lock()
	defer engine.mutex.Unlock()
	if engine.commits > 3 { // the accepts of the others may have made a round of their own
		t.Errorf("%d commits for 6 puts, 5 of which came during the first", engine.commits)
	}
}

func TestAFailedCommitIsNotAcknowledged(t *testing.T) {
	s, engine := start(t, Options{Batch: 8})
	engine.onCommit(func() error { return errors.New("no disk") })
	connection := dial(t, s)
	if _, err := connection.Write(wire.AppendPut(nil, 1, 0, valueOf(1, 1), 1)); err != nil {
		t.Fatal(err)
	}
	if got, err := replies(connection, 1); err == nil {
		t.Errorf("reply %+v", got)
	}
}

func TestFailuresAreTold(t *testing.T) {
	s, engine := start(t, Options{Batch: 8})
	connection := dial(t, s)
	var output []byte
	for key := range uint64(capacity / 100) {
		values := bytes.Repeat(valueOf(key, 0), 100)
		keys := make([]uint64, 100)
		for number := range keys {
			keys[number] = key*100 + uint64(number)
		}
		output = wire.AppendPut(output, 1, 0, values, keys...)
	}
	output = wire.AppendPut(output, 2, 0, bytes.Repeat(valueOf(1, 1), 3), 1, capacity, 2) // the second is new
	output = wire.AppendPut(output, 3, 0, valueOf(1, 2), 1)
	if _, err := connection.Write(output); err != nil {
		t.Fatal(err)
	}
	got, err := replies(connection, capacity/100+2)
	if err != nil {
		t.Fatal(err)
	}
	if full := got[capacity/100]; full.Status != wire.Full || full.Count != 1 {
		t.Errorf("a put of a new key into a full table: %v, count %d", full.Status, full.Count)
	}
	if last := got[capacity/100+1]; last.Status != wire.OK {
		t.Errorf("an overwrite behind it: %v", last.Status)
	}
	engine.mutex.Lock()
	engine.getError = errors.New("out of order")
	engine.mutex.Unlock()
	if _, err := connection.Write(wire.AppendGet(nil, 4, wire.WithLatency, 1)); err != nil {
		t.Fatal(err)
	}
	got, err = replies(connection, 1)
	if err != nil || got[0].Status != wire.Failed || string(got[0].Body) != "out of order" {
		t.Errorf("a get that fails: %+v, %v", got, err)
	}
}

func TestAStreamThatCannotBeFollowedIsClosedWithAReason(t *testing.T) {
	s, _ := start(t, Options{Batch: 8})
	connection := dial(t, s)
	good := wire.AppendGet(nil, 1, 0, 1)
	if _, err := connection.Write(append(good, "GET / HTTP/1.1\r\n\r\n"...)); err != nil {
		t.Fatal(err)
	}
	got, err := replies(connection, 2)
	if err != nil || got[0].Status != wire.Partial || got[1].Status != wire.Bad || len(got[1].Body) == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := connection.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	if counts := s.Counts(); counts.Bad != 1 {
		t.Errorf("counts %+v", counts)
	}
}

func TestASampleOfRequestsHasSpansAndHistograms(t *testing.T) {
	var mutex sync.Mutex
	spans := map[string]int{}
	s, _ := start(t, Options{Batch: 1, SpanEvery: 50, Span: func(operation string, keys int, start, end time.Time) {
		mutex.Lock()
		defer mutex.Unlock()
		if keys == 1 && !end.Before(start) {
			spans[operation]++
		}
	}})
	connection := dial(t, s)
	var output []byte
	for number := range uint32(200) {
		output = wire.AppendGet(output, number, 0, 1)
		output = wire.AppendPut(output, number, 0, valueOf(1, 1), 1)
	}
	go func() { _, _ = connection.Write(output) }()
	if _, err := replies(connection, 400); err != nil {
		t.Fatal(err)
	}
	mutex.Lock()
	defer mutex.Unlock()
	if spans["get"]+spans["put"] != 8 {
		t.Errorf("spans %v of 400 requests", spans)
	}
	counts := s.Counts()
	if counts.Gets != 200 || counts.Puts != 200 || counts.Hits != 199 {
		t.Errorf("counts %+v", counts)
	}
	if timed := counts.GetLatency.Count() + counts.PutLatency.Count(); timed != 400/timedRuns {
		t.Errorf("%d requests were timed", timed)
	}
}

func TestATCPServerTellsItsPort(t *testing.T) {
	table, err := engines.Open(t.Context(), "table", engines.Options{Records: 10, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		s, err := Start(table, Options{Address: address, Threads: 1, Batch: 1, Buffer: minBuffer})
		if err != nil {
			t.Logf("%s: %v", address, err) // a machine may have no IPv6
			continue
		}
		if _, err := net.Dial("tcp", s.Address()); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTheExampleOfTheProtocolPage: byte by byte.
func TestTheExampleOfTheProtocolPage(t *testing.T) {
	page, err := os.ReadFile("../../PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	bytesOf := func(name string) []byte {
		_, rest, _ := strings.Cut(string(page), "    "+name+" ")
		line, _, _ := strings.Cut(rest, "\n")
		before, after, hasRecord := strings.Cut(line, "(1,024 bytes of record 6)")
		text, err := hex.DecodeString(strings.ReplaceAll(before, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if hasRecord {
			end, err := hex.DecodeString(strings.TrimSpace(after))
			if err != nil {
				t.Fatal(err)
			}
			text = append(append(text, valueOf(6, 1)...), end...)
		}
		return text
	}
	s, _ := start(t, Options{Batch: 8})
	connection := dial(t, s)
	if _, err := connection.Write(wire.AppendPut(nil, 0, 0, valueOf(6, 1), 6)); err != nil {
		t.Fatal(err)
	}
	if _, err := replies(connection, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Write(bytesOf("request")); err != nil {
		t.Fatal(err)
	}
	want := bytesOf("reply")
	got := make([]byte, len(want))
	if _, err := io.ReadFull(connection, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, the page says %x (%v)", got, want, err)
	}
}

// FuzzFrame: whatever is sent, the server lives, and answers the next client.
func FuzzFrame(f *testing.F) {
	s, _ := start(f, Options{Batch: 4, Threads: 1})
	f.Add(wire.AppendGet(nil, 1, 0, 1, 2, 3))
	f.Add(wire.AppendPut(nil, 1, wire.WithLatency, make([]byte, record.Size), 4))
	f.Add(append(wire.AppendStats(nil, 9), wire.AppendPut(nil, 1, 0, valueOf(1, 1), 1)...))
	f.Add([]byte("\xff\xff\xff\xff\x01\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, input []byte) {
		connection, err := net.Dial("unix", s.unix)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		_ = connection.SetDeadline(time.Now().Add(time.Minute))
		if _, err := connection.Write(input); err == nil {
			_ = connection.(*net.UnixConn).CloseWrite()
		}
		_, _ = io.Copy(io.Discard, connection)
		next, err := net.Dial("unix", s.unix)
		if err != nil {
			t.Fatal(err)
		}
		defer next.Close()
		_ = next.SetDeadline(time.Now().Add(time.Minute))
		if _, err := next.Write(wire.AppendStats(nil, 5)); err != nil {
			t.Fatal(err)
		}
		if got, err := replies(next, 1); err != nil || got[0].ID != 5 {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}
