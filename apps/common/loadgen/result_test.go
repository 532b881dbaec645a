package loadgen

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"flag"
	"io"
	"os"
	"reflect"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the shared result file anew")

// sharedResult is what both this program and its reader in Python are held to.
const sharedResult = "../../../tests/cases/load/result.json"

type sharedCase struct {
	Description string  `json:"description"`
	Event       *Result `json:"event"`
	Rows        [][]any `json:"rows"` // due_ns, sent_ns, end_ns, class, status, ok
}

// finished is a sender after a run of six requests, one of each kind of end.
func finished(t *testing.T) *sender {
	document := `{"kind": "workload", "version": 1, "timeout_ms": 5000, "requests": [
	 {"name": "read", "weight": 1, "path": "/read"}, {"name": "write", "weight": 1, "path": "/write"}]}`
	plan, workload := makePlan(t, document, func(plan *Plan) {
		plan.Arrivals, plan.RateRPS, plan.WarmupS, plan.WindowS, plan.Seed = "constant", 2, 1, 2, 7
	})
	s := newSender(plan, workload)
	s.start = time.Unix(1_700_000_000, 123_456_789)
	ms := time.Millisecond
	s.records = []record{
		{sent: 1, end: 5 * ms, status: 200},
		{sent: 500*ms + 1, end: 505 * ms, status: 503, reason: "status 503"},
		{sent: 1000*ms + 2, end: 1010 * ms, status: 200},
		{sent: 1500*ms + 3, end: 6500 * ms, reason: reasonTimeout},
		{sent: 2000*ms + 4, end: 2020 * ms, status: 200},
		{sent: 2500*ms + 5, end: 2501 * ms, status: 500, reason: "status 500"},
	}
	return s
}

func TestResultIsWhatTheReaderExpects(t *testing.T) {
	s := finished(t)
	result, err := s.result(spanCount{created: 4, exported: 3, problem: "lost one"}, 0.25, false)
	if err != nil {
		t.Fatal(err)
	}
	now := sharedCase{Description: "written by `go test ./common/loadgen -update` in apps", Event: result}
	for index, outcome := range s.records {
		request, start := s.requests[index], s.start.UnixNano()
		now.Rows = append(now.Rows, []any{start + int64(request.Due), start + int64(outcome.sent),
			start + int64(outcome.end), request.Class, outcome.status, outcome.reason == ""})
	}
	if *update {
		data, err := json.MarshalIndent(now, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(sharedResult, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(sharedResult)
	if err != nil {
		t.Fatal(err)
	}
	var recorded sharedCase
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	// Compressed bytes may change with the version of Go; what they hold may not.
	if !bytes.Equal(unpacked(t, result.Columns), unpacked(t, recorded.Event.Columns)) {
		t.Error("columns differ from the shared file")
	}
	recorded.Event.Columns = result.Columns
	if !reflect.DeepEqual(recorded.Event, result) {
		t.Errorf("found %+v, recorded %+v", result, recorded.Event)
	}
}

func unpacked(t *testing.T, columns string) []byte {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(columns)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestFailedRequestsAreInfiniteInTheSummary(t *testing.T) {
	good := newTimes()
	for ms := range 9 {
		good.add(time.Duration(ms+1) * time.Millisecond)
	}
	summary := good.summary(1)
	if p50, p90 := summary.Quantiles["p50"], summary.Quantiles["p90"]; *p50 != 5.003 || *p90 != 9.007 {
		t.Errorf("p50 %v, p90 %v", *p50, *p90)
	}
	if summary.Quantiles["p95"] != nil || summary.Quantiles["max"] != nil {
		t.Error("a quantile among the failed has a number")
	}
	if none := newTimes().summary(3); none.Mean != nil || none.Quantiles["p50"] != nil || none.Count != 3 {
		t.Errorf("%+v", none)
	}
}
