package engines_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tailor/apps/common/storetest"
	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/record"
)

// kind is a way to open an engine for the contract below; it is skipped where the server that it needs is not there.
type kind struct {
	engine string
	open   func(t *testing.T) engines.Options
}

func kinds() map[string]kind {
	table := engines.Options{Records: 3_000, Shards: 5}
	onDisk := func(options engines.Options) func(t *testing.T) engines.Options {
		return func(t *testing.T) engines.Options {
			options.Directory = t.TempDir()
			return options
		}
	}
	logged := table
	logged.Fsync = "always"
	merged := engines.Options{Fsync: "interval", FsyncInterval: 10 * time.Millisecond, CacheBytes: 1 << 20}
	return map[string]kind{
		"table":           {"table", func(*testing.T) engines.Options { return table }},
		"table on a disk": {"table", onDisk(logged)},
		"pebble":          {"pebble", onDisk(merged)},
		"redis":           {"redis", program("redis-server", "--save", "", "--port")},
		"memcached":       {"memcached", program("memcached", "-u", "nobody", "-l", "127.0.0.1", "-m", "64", "-p")},
	}
}

// program starts a server on a free port, which is its last argument.
func program(name string, arguments ...string) func(t *testing.T) engines.Options {
	return func(t *testing.T) engines.Options {
		address := storetest.Program(t, name, arguments...)
		if address == "" {
			t.Skipf("%s is not installed", name)
		}
		return engines.Options{Address: address, Connections: 2}
	}
}

func open(t *testing.T, name string, options engines.Options) engines.Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	engine, err := engines.Open(ctx, name, options)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// TestEveryEngineIsAMap: gets and puts of many keys at once, compared with a map, from several goroutines.
func TestEveryEngineIsAMap(t *testing.T) {
	for name, kind := range kinds() {
		t.Run(name, func(t *testing.T) {
			engine := open(t, kind.engine, kind.open(t))
			defer engine.Close()
			var running sync.WaitGroup
			for number := range uint64(3) {
				running.Go(func() {
					if err := operate(engine, rand.New(rand.NewPCG(number, 3)), number*1_000_000_000_000); err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
			if stats := engine.Stats(); stats.Engine != kind.engine || stats.Problem != "" {
				t.Errorf("stats %+v", stats)
			}
		})
	}
}

var errWrong = errors.New("a get found something else than was put")

func operate(engine engines.Engine, random *rand.Rand, first uint64) error {
	model := map[uint64]uint64{}
	for version := range uint64(150) {
		count := 1 + random.IntN(20)
		keys, values := make([]uint64, count), make([][]byte, count)
		for i := range keys {
			keys[i] = first + random.Uint64N(200)
			values[i] = valueOf(keys[i], version*100+uint64(i))
		}
		if version%3 == 0 {
			stored, err := engine.Put(keys, values)
			if err == nil {
				err = engine.Commit()
			}
			if err != nil || stored != count {
				return errors.Join(err, errors.New("a put was not stored"))
			}
			for i, key := range keys {
				model[key] = version*100 + uint64(i)
			}
			continue
		}
		found := make([]bool, count)
		for i := range values {
			values[i] = make([]byte, record.Size)
		}
		if err := engine.Get(keys, values, found); err != nil {
			return err
		}
		for i, key := range keys {
			put, isThere := model[key]
			if found[i] != isThere || isThere && !bytes.Equal(values[i], valueOf(key, put)) {
				return errWrong
			}
		}
	}
	return nil
}

// TestEnginesOnADiskKeepRecords over an end in peace.
func TestEnginesOnADiskKeepRecords(t *testing.T) {
	for _, name := range []string{"table", "pebble"} {
		for _, fsync := range []string{"always", "interval", "never", "off"} {
			options := engines.Options{
				Records: 10, Shards: 1, Directory: t.TempDir(), Fsync: fsync, FsyncInterval: time.Millisecond, CacheBytes: 1 << 20,
			}
			engine := open(t, name, options)
			free := fsync == "off" || name == "pebble" && fsync == "never"
			if engine.CommitsAtOnce() != free {
				t.Errorf("%s, %s: commits at once: %v", name, fsync, engine.CommitsAtOnce())
			}
			if _, err := engine.Put([]uint64{7}, [][]byte{valueOf(7, 1)}); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(engine.Commit(), engine.Close()); err != nil {
				t.Fatalf("%s, %s: %v", name, fsync, err)
			}
			engine = open(t, name, options)
			into, found := [][]byte{make([]byte, record.Size)}, []bool{false}
			if err := engine.Get([]uint64{7}, into, found); err != nil || !found[0] || !bytes.Equal(into[0], valueOf(7, 1)) {
				t.Errorf("%s, %s: the record is not there (%v)", name, fsync, err)
			}
			if err := engine.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestADirectoryHasOneProcess(t *testing.T) {
	options := engines.Options{Records: 10, Shards: 1, Directory: t.TempDir(), Fsync: "never"}
	defer open(t, "table", options).Close()
	if _, err := engines.Open(t.Context(), "table", options); err == nil {
		t.Error("the directory was opened twice")
	}
}

// TestAServerThatGoesAwayIsAnError and the next exchange connects anew.
func TestAServerThatGoesAwayIsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	// One reply on each connection, then its end: to the INFO of the start, and to a put.
	replies := []string{infoReply, "", "+OK\r\n", "-OOM command not allowed\r\n"}
	go func() {
		for _, reply := range replies {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Read(make([]byte, 1<<16))
			_, _ = io.WriteString(connection, reply)
			_ = connection.Close()
		}
	}()
	engine := open(t, "redis", engines.Options{Address: listener.Addr().String(), Connections: 1})
	defer engine.Close()
	put := func() error {
		_, err := engine.Put([]uint64{1}, [][]byte{valueOf(1, 1)})
		return err
	}
	var outcomes []error
	for len(outcomes) == 0 || len(outcomes) < 20 && !errors.Is(outcomes[len(outcomes)-1], engines.ErrFull) {
		outcomes = append(outcomes, put())
	}
	failed := slices.ContainsFunc(outcomes, func(err error) bool { return err != nil && !errors.Is(err, engines.ErrFull) })
	if !failed || !slices.Contains(outcomes, nil) {
		t.Errorf("outcomes %v: wanted a failure, a success and a refusal", outcomes)
	}
}

// anotherServer replies to any request as redis does to INFO.
func anotherServer(t *testing.T) engines.Options {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				for {
					if _, err := connection.Read(make([]byte, 1<<10)); err != nil {
						return
					}
					_, _ = io.WriteString(connection, infoReply)
				}
			}()
		}
	}()
	return engines.Options{Address: listener.Addr().String(), Connections: 2}
}

const infoReply = "$34\r\nused_cpu_user:1\r\nused_cpu_sys:1\r\n  \r\n"

// TestStatsMayBeAskedForWhileAnEngineCloses and afterwards: the admin port answers longest.
func TestStatsMayBeAskedForWhileAnEngineCloses(t *testing.T) {
	all := kinds()
	all["another server"] = kind{"redis", anotherServer}
	for name, kind := range all {
		t.Run(name, func(t *testing.T) {
			engine := open(t, kind.engine, kind.open(t))
			var asking sync.WaitGroup
			for range 3 {
				asking.Go(func() {
					for range 20 {
						if stats := engine.Stats(); stats.Engine != kind.engine {
							t.Errorf("stats %+v", stats)
						}
					}
				})
			}
			if err := engine.Close(); err != nil {
				t.Error(err)
			}
			asking.Wait()
			_ = engine.Stats()
		})
	}
}

func TestUnknownAndImpossibleEnginesAreNamed(t *testing.T) {
	_, err := engines.Open(t.Context(), "rocksdb", engines.Options{})
	if err == nil || !strings.Contains(err.Error(), "memcached, pebble, redis, table") {
		t.Errorf("error %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string]engines.Options{
		"pebble": {}, "table": {Records: 1, Shards: 1, Directory: file, Fsync: "never"},
	} {
		if _, err := engines.Open(t.Context(), name, options); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}
