package service

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

func environment(values map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, isSet := values[name]
		return value, isSet
	}
}

// newService is a service with one client of each kind, none of which has connected.
func newService(t *testing.T, values map[string]string) *Service {
	t.Helper()
	s, err := New(t.Context(), "under-test", environment(values))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	if _, err := s.Client("peer"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Database(t.Context(), "peer-db"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Memcached("peer-memcached"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Redis("peer-redis"); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDefaultsAreThoseOfTheLibraries(t *testing.T) {
	pool, err := pgxpool.ParseConfig("postgres://localhost/postgres")
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	want := map[string]int64{
		GoMaxProcs:           int64(runtime.GOMAXPROCS(0)),
		GoGC:                 100,
		Workers:              concurrentStreams(t),
		IdleConnections:      http.DefaultMaxIdleConnsPerHost,
		DatabaseConnections:  int64(pool.MaxConns),
		MemcachedConnections: memcache.DefaultMaxIdleConns,
		RedisConnections:     int64(client.Options().PoolSize),
	}
	got := newService(t, nil).parameters.Effective()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %d by default, the library's is %d", name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("parameters are %v, compared were %v", got, want)
	}
	if DefaultFanoutWorkers() != runtime.NumCPU() {
		t.Errorf("FANOUT_WORKERS is %d by default, asynq documents the number of CPUs", DefaultFanoutWorkers())
	}
}

// concurrentStreams is the SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113, 6.5.2) that an unconfigured HTTP/2 server of
// net/http announces: the constant itself is not exported.
func concurrentStreams(t *testing.T) int64 {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	const emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	if _, err := io.WriteString(connection, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+emptySettings); err != nil {
		t.Fatal(err)
	}
	header := make([]byte, 9)
	if _, err := io.ReadFull(connection, header); err != nil {
		t.Fatal(err)
	}
	if header[3] != 4 {
		t.Fatalf("first frame has the type %d, not SETTINGS", header[3])
	}
	settings := make([]byte, int(header[0])<<16|int(header[1])<<8|int(header[2]))
	if _, err := io.ReadFull(connection, settings); err != nil {
		t.Fatal(err)
	}
	for ; len(settings) >= 6; settings = settings[6:] {
		if binary.BigEndian.Uint16(settings) == 3 {
			return int64(binary.BigEndian.Uint32(settings[2:]))
		}
	}
	t.Fatal("no SETTINGS_MAX_CONCURRENT_STREAMS")
	return 0
}

func TestParametersTakeEffect(t *testing.T) {
	values := map[string]string{
		Workers: "7", IdleConnections: "8", DatabaseConnections: "9", MemcachedConnections: "10", RedisConnections: "11",
	}
	s := newService(t, values)
	got := s.parameters.Effective()
	for name, want := range map[string]int64{
		Workers: 7, IdleConnections: 8, DatabaseConnections: 9, MemcachedConnections: 10, RedisConnections: 11,
	} {
		if got[name] != want {
			t.Errorf("%s is %d, set was %d", name, got[name], want)
		}
	}
	if cap(s.workers.places) != 7 {
		t.Errorf("%d workers", cap(s.workers.places))
	}
}

func TestUnusableValuesAreNamed(t *testing.T) {
	for _, value := range []string{"0", "-1", "many", "1.5", "2 "} {
		_, err := New(t.Context(), "under-test", environment(map[string]string{Workers: value}))
		var wrong *ParameterError
		if !errors.As(err, &wrong) || wrong.Name != Workers || wrong.Value != value {
			t.Errorf("WORKERS=%q: %v", value, err)
		}
	}
	_, err := New(t.Context(), "under-test", environment(map[string]string{TracingSwitch: "yes"}))
	var wrong *ParameterError
	if !errors.As(err, &wrong) || wrong.Name != TracingSwitch {
		t.Errorf("TRACING=yes: %v", err)
	}
}

func TestEveryParameterIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/service-defaults.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range newService(t, nil).parameters.Effective() {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/reference/service-defaults.md does not name %s", name)
		}
	}
	for _, name := range []string{FanoutWorkers, TracingSwitch} {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/reference/service-defaults.md does not name %s", name)
		}
	}
}
