package role

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailor/apps/common/service"
	"tailor/apps/key-value/internal/client"
	"tailor/apps/key-value/internal/dialect"
	"tailor/apps/key-value/internal/record"
	"tailor/apps/key-value/internal/table"
)

// start is a service with the given environment, and the address of its binary protocol.
func start(t *testing.T, environment map[string]string) (*service.Service, string) {
	t.Helper()
	address := "unix:" + filepath.Join(t.TempDir(), "s")
	s, err := service.New(t.Context(), Name, func(name string) (string, bool) {
		if name == "BINARY_ADDRESS" {
			return address, true
		}
		value, isSet := environment[name]
		return value, isSet
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := New(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(t.Context()) })
	return s, address
}

func ask(t *testing.T, s *service.Service, method, path string) (int, map[string]any) {
	t.Helper()
	answer := httptest.NewRecorder()
	s.AdminRoutes().ServeHTTP(answer, httptest.NewRequest(method, path, nil))
	var told map[string]any
	if answer.Code == 200 && strings.HasPrefix(answer.Header().Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(answer.Body.Bytes(), &told); err != nil {
			t.Fatal(err)
		}
	}
	return answer.Code, told
}

func TestParametersAreReadBack(t *testing.T) {
	given := map[string]string{
		"THREADS": "3", "SHARDS": "17", "BATCH": "5", "BUFFER_KIB": "32", "FSYNC": "always", "FSYNC_INTERVAL_MS": "50",
		"ENGINE": "pebble", "DIRECTORY": t.TempDir(),
	}
	s, _ := start(t, given)
	_, told := ask(t, s, "GET", "/parameters")
	for name, want := range given {
		if name != "DIRECTORY" && fmt.Sprint(told[name]) != want {
			t.Errorf("%s is %v, given was %s", name, told[name], want)
		}
	}
}

func TestDefaultsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/reference/service-defaults.md")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := start(t, nil)
	_, told := ask(t, s, "GET", "/parameters")
	for _, name := range []string{
		threadsName, shardsName, batchName, bufferName, fsyncName, fsyncIntervalName, "CACHE_MIB", "ENGINE_CONNECTIONS",
	} {
		value := fmt.Sprint(told[name])
		if name == fsyncName {
			value = "`" + value + "`"
		}
		row := ""
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "| `"+name+"`") {
				row = line
			}
		}
		if !strings.Contains(row, "| "+value+" |") {
			t.Errorf("%s is %s by default; the page says %q", name, value, row)
		}
	}
	if told[engineName] != "table" {
		t.Errorf("the engine is %v by default", told[engineName])
	}
}

func TestUnusableSettingsAreNamed(t *testing.T) {
	for name, value := range map[string]string{
		"THREADS": "0", "BUFFER_KIB": "3", "ENGINE": "rocksdb", "FSYNC": "sometimes", "RECORDS": "-1", "SNAPSHOT_SECONDS": "-1",
	} {
		_, err := read(service.NewParameters(func(asked string) (string, bool) {
			if asked == name {
				return value, true
			}
			return "", false
		}))
		var wrong *service.ParameterError
		if !errors.As(err, &wrong) || wrong.Name != name {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

func TestAsManyRecordsAsTheMemoryHolds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limit")
	for text, want := range map[string]int64{"1073741824\n": 1 << 30, "max\n": 0} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := containerLimit(file); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
	if containerLimit("/nowhere") != 0 {
		t.Error("a file that is not there")
	}
	if most := mostRecords(); most < 1000 || most > table.MaxRecords {
		t.Errorf("%d records", most)
	}
}

// TestTasksFillAndCheck: what prepare stores, check finds; it stores no record anew, so that a dataset stays as it is.
func TestTasksFillAndCheck(t *testing.T) {
	s, address := start(t, map[string]string{"DIRECTORY": t.TempDir(), "FSYNC": "never"})
	arguments := []string{"--address", address, "--records", "700"}
	run := func(name string) error { return Tasks()[name](t.Context(), arguments) }
	if err := run("check"); err == nil {
		t.Error("nothing is there, and the check says nothing")
	}
	if err := run("prepare"); err != nil {
		t.Fatal(err)
	}
	connection, err := client.Dial(address, dialect.Native{}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	changed := [][]byte{make([]byte, record.Size)}
	if _, refusal, err := connection.Put([]uint64{5}, changed); err != nil || refusal != nil {
		t.Fatal(refusal, err)
	}
	if err := errors.Join(run("prepare"), run("check")); err != nil {
		t.Error(err)
	}
	into, found := [][]byte{[]byte(strings.Repeat("x", record.Size))}, []bool{false}
	if err := connection.Get([]uint64{5}, into, found); err != nil || !found[0] || into[0][0] != 0 {
		t.Errorf("the record was stored anew (%v)", err)
	}
	status, told := ask(t, s, "POST", "/snapshot")
	if status != 200 || told["snapshots"] != 1.0 || told["records"] != 700.0 {
		t.Errorf("snapshot: %d %v", status, told)
	}
	status, told = ask(t, s, "GET", "/stats")
	requests, _ := told["requests"].(map[string]any)
	if status != 200 || requests["puts"] != 701.0 {
		t.Errorf("stats: %d %v", status, told)
	}
	if status, _ := ask(t, s, "GET", "/health"); status != 200 {
		t.Errorf("health: %d", status)
	}
}

func TestAnEngineWithoutSnapshotsSaysSo(t *testing.T) {
	s, _ := start(t, map[string]string{"ENGINE": "pebble", "DIRECTORY": t.TempDir()})
	if status, _ := ask(t, s, "POST", "/snapshot"); status != 501 {
		t.Errorf("status %d", status)
	}
}
