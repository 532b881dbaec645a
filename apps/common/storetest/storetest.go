// Package storetest starts real stores for tests: a redis-server of this machine where there is one, and containers
// where TAILOR_TEST_DOCKER is set. A test that gets neither is skipped and says so.
package storetest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tailor/apps/common/service"
)

// Switch is the variable that allows tests to start containers.
const Switch = "TAILOR_TEST_DOCKER"

// startTime is how long a store may take to answer; a store that never answers fails the test.
const startTime = 60 * time.Second

// Service is a service without parameters, which starts no trace.
func Service(t *testing.T, name string) *service.Service {
	t.Helper()
	s, err := service.New(t.Context(), name, func(variable string) (string, bool) {
		return "off", variable == service.TracingSwitch
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// Redis is an empty redis and its address.
func Redis(t *testing.T, s *service.Service) (*service.Redis, string) {
	t.Helper()
	address := Program(t, "redis-server", "--save", "", "--port")
	if address == "" {
		address = container(t, "redis:7.0") + ":6379"
	}
	store, err := s.RedisAt("redis", address)
	if err != nil {
		t.Fatal(err)
	}
	await(t, s)
	return store, address
}

// Program starts a server of this machine on a free port of the loopback interface, which is its last argument, and
// returns its address; "" where the server is not installed. It ends with the test.
func Program(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	binary, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	_, port, _ := strings.Cut(address, ":")
	server := exec.Command(binary, append(arguments, port)...)
	server.Dir = t.TempDir()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	return address
}

// Memcached is an empty memcached.
func Memcached(t *testing.T, s *service.Service) *service.Memcached {
	t.Helper()
	store, err := s.MemcachedAt("memcached", container(t, "memcached:1.6")+":11211")
	if err != nil {
		t.Fatal(err)
	}
	await(t, s)
	return store
}

// Database is a PostgreSQL with the tables that statements make.
func Database(t *testing.T, s *service.Service, statements ...string) *service.Database {
	t.Helper()
	host := container(t, "postgres:15", "-e", "POSTGRES_PASSWORD=postgres")
	store, err := s.DatabaseAt(t.Context(), "postgres", "postgres://postgres:postgres@"+host+":5432/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	await(t, s)
	for _, statement := range statements {
		if _, err := store.Execute(t.Context(), "CREATE table", statement); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// container starts an image and returns its address; the container goes with the test.
func container(t *testing.T, image string, options ...string) string {
	t.Helper()
	if os.Getenv(Switch) == "" {
		t.Skipf("needs %s in a container: set %s=1 and have an engine", image, Switch)
	}
	arguments := append([]string{"run", "--detach", "--rm", "--label", "tailor.test=go"}, options...)
	id := docker(t, append(arguments, image)...)
	t.Cleanup(func() { docker(t, "rm", "--force", "--volumes", id) })
	return docker(t, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", id)
}

func docker(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := exec.Command("docker", arguments...).Output()
	if err != nil {
		t.Fatalf("docker %v: %v", arguments, err)
	}
	return strings.TrimSpace(string(output))
}

func await(t *testing.T, s *service.Service) {
	t.Helper()
	deadline := time.Now().Add(startTime)
	for {
		err := s.Healthy(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a store did not start: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
