package web

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tailor/apps/common/service"
	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/record"
)

func start(t *testing.T) *httptest.Server {
	t.Helper()
	s, err := service.New(t.Context(), "under-test", func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	engine, err := engines.Open(t.Context(), "table", engines.Options{Records: 100, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	Register(s, engine)
	answering := httptest.NewServer(s.Routes())
	t.Cleanup(func() {
		answering.Close()
		_ = engine.Close()
	})
	return answering
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

func TestRecordsGoInAndOut(t *testing.T) {
	at := start(t).URL + "/records"
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
	var pairs []byte
	for _, key := range []uint64{3, 1} {
		pairs = append(binary.LittleEndian.AppendUint64(pairs, key), valueOf(key)...)
	}
	if status, text, _ := ask(t, "PUT", at, pairs); status != http.StatusNoContent {
		t.Errorf("put of two: %d %s", status, text)
	}
	if status, text, _ := ask(t, "GET", at+"?keys=3,2,1", nil); status != http.StatusOK || !bytes.Equal(text, pairs) {
		t.Errorf("get of three, two of which are there: %d, %d bytes", status, len(text))
	}
}

func TestMistakesAreNamed(t *testing.T) {
	at := start(t).URL + "/records"
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

func TestAFullTableIsSaid(t *testing.T) {
	at := start(t).URL + "/records"
	for key := range 101 {
		status, text, _ := ask(t, "PUT", fmt.Sprintf("%s/%d", at, key), valueOf(1))
		if want := map[bool]int{false: http.StatusNoContent, true: http.StatusInsufficientStorage}[key == 100]; status != want {
			t.Errorf("key %d: %d %s", key, status, text)
		}
	}
}
