package web

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"tailor/apps/common/service"
	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/record"
)

// counted is an engine that counts its commits, which may fail.
type counted struct {
	engines.Engine
	commits atomic.Int64
	failing atomic.Bool
}

func (c *counted) Commit() error {
	c.commits.Add(1)
	if c.failing.Load() {
		return errors.New("no disk")
	}
	return nil
}

const capacity = 100

func start(t *testing.T) (*httptest.Server, *counted) {
	t.Helper()
	s, err := service.New(t.Context(), "under-test", func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	table, err := engines.Open(t.Context(), "table", engines.Options{Records: capacity, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	engine := &counted{Engine: table}
	Register(s, engine)
	answering := httptest.NewServer(s.Routes())
	t.Cleanup(func() {
		answering.Close()
		_ = engine.Close()
	})
	return answering, engine
}

func ask(t *testing.T, method, url string, body []byte) (int, []byte, http.Header) {
	t.Helper()
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, text, reply.Header
}

func valueOf(key uint64) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint64(nil, key+9), record.Size/8)
}

func pairsOf(keys ...uint64) (pairs []byte) {
	for _, key := range keys {
		pairs = append(binary.LittleEndian.AppendUint64(pairs, key), valueOf(key)...)
	}
	return pairs
}

func TestRecordsGoInAndOut(t *testing.T) {
	answering, _ := start(t)
	at := answering.URL + "/records"
	const largest = uint64(1<<64 - 1)
	one := fmt.Sprintf("%s/%d", at, largest)
	if status, _, _ := ask(t, "GET", one, nil); status != http.StatusNotFound {
		t.Errorf("a get of nothing: %d", status)
	}
	if status, text, _ := ask(t, "PUT", one, valueOf(largest)); status != http.StatusNoContent {
		t.Errorf("put: %d %s", status, text)
	}
	status, text, header := ask(t, "GET", one, nil)
	if status != http.StatusOK || !bytes.Equal(text, valueOf(largest)) {
		t.Errorf("get: %d, %d bytes", status, len(text))
	}
	if !strings.HasPrefix(header.Get("Server-Timing"), "engine;dur=0.") {
		t.Errorf("Server-Timing is %q", header.Get("Server-Timing"))
	}
	pairs := pairsOf(3, 1)
	if status, text, _ := ask(t, "PUT", at, pairs); status != http.StatusNoContent {
		t.Errorf("put of two: %d %s", status, text)
	}
	if status, text, _ := ask(t, "GET", at+"?keys=3,2,1", nil); status != http.StatusOK || !bytes.Equal(text, pairs) {
		t.Errorf("get of three, two of which are there: %d, %d bytes", status, len(text))
	}
}

func TestMistakesAreNamed(t *testing.T) {
	answering, _ := start(t)
	at := answering.URL + "/records"
	for _, wrong := range []struct {
		method, url string
		body        []byte
	}{
		{"GET", at + "/seven", nil}, {"GET", at + "/-1", nil}, {"GET", at + "/18446744073709551616", nil}, {"GET", at, nil},
		{"GET", at + "?keys=1,", nil}, {"GET", at + "?keys=" + strings.Repeat("1,", 2000) + "1", nil},
		{"PUT", at + "/1", valueOf(1)[1:]}, {"PUT", at, nil}, {"PUT", at, valueOf(1)},
	} {
		status, text, _ := ask(t, wrong.method, wrong.url, wrong.body)
		if status != http.StatusBadRequest || len(text) < 10 {
			t.Errorf("%s %.60s: %d %s", wrong.method, wrong.url, status, text)
		}
	}
}

// TestAFullTableIsSaid, and what it took of a batch before is durable then.
func TestAFullTableIsSaid(t *testing.T) {
	answering, engine := start(t)
	at := answering.URL + "/records"
	for key := range uint64(capacity - 1) {
		if status, text, _ := ask(t, "PUT", at, pairsOf(key)); status != http.StatusNoContent {
			t.Fatalf("key %d: %d %s", key, status, text)
		}
	}
	for _, expected := range []struct {
		keys    []uint64
		text    string
		commits int64
	}{
		{[]uint64{capacity, capacity + 1, capacity + 2}, "1 of 3 records", 1},
		{[]uint64{capacity + 1, 0}, "0 of 2 records", 0},
	} {
		before := engine.commits.Load()
		status, text, _ := ask(t, "PUT", at, pairsOf(expected.keys...))
		if status != http.StatusInsufficientStorage || !strings.Contains(string(text), expected.text) {
			t.Errorf("keys %d: %d %s", expected.keys, status, text)
		}
		if commits := engine.commits.Load() - before; commits != expected.commits {
			t.Errorf("keys %d: %d commits", expected.keys, commits)
		}
	}
	engine.failing.Store(true)
	if status, text, _ := ask(t, "PUT", at, pairsOf(0, capacity+1)); status != http.StatusBadGateway {
		t.Errorf("a full table that cannot keep what it took: %d %s", status, text)
	}
}
