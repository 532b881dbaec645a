package loadgen

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func numbers(t *testing.T, text string) []uint32 {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data)%4 != 0 {
		t.Fatalf("%q: %v", text, err)
	}
	values := make([]uint32, len(data)/4)
	for index := range values {
		values[index] = binary.LittleEndian.Uint32(data[4*index:])
	}
	return values
}

// The clock of these windows is their argument.
func TestWindowsHaveWhatEndedAndWhatIsStillInFlight(t *testing.T) {
	ms, l, start := time.Millisecond, &live{}, time.Unix(1_700_000_000, 0)
	good := func(f *flight, end time.Duration) { l.end(f, &record{end: end}) }
	first, second, third, late := l.begin(10*ms), l.begin(20*ms), l.begin(30*ms), l.begin(150*ms)
	good(second, 25*ms)
	l.end(third, &record{end: 31 * ms, reason: "status 503"})

	window := l.window(start, 0, 100*ms)
	ended, waiting := numbers(t, window.Latencies), numbers(t, window.Waiting)
	slices.Sort(ended)
	if !reflect.DeepEqual(ended, []uint32{5000, failedUS}) || !reflect.DeepEqual(waiting, []uint32{90_000}) {
		t.Errorf("ended %v, waiting %v", ended, waiting)
	}
	window.Latencies, window.Waiting = "", ""
	want := Window{Event: "window", FromNS: start.UnixNano(), AtNS: start.UnixNano() + int64(100*ms), Due: 3, Finished: 2,
		Failed: 1, InFlight: 1, OldestUS: 90_000}
	if window != want {
		t.Errorf("%+v, wanted %+v", window, want)
	}

	window = l.window(start, 100*ms, 150*ms) // the one that is due at its end belongs to the next
	if window.Due != 0 || window.Finished != 0 || window.InFlight != 1 || window.OldestUS != 140_000 {
		t.Errorf("%+v: a window in which nothing finished looks calm", window)
	}
	good(first, 160*ms)
	good(late, 170*ms)
	window = l.window(start, 150*ms, 200*ms)
	if window.Due != 1 || window.Finished != 2 || window.InFlight != 0 || window.OldestUS != 0 || len(l.waiting) != 0 {
		t.Errorf("%+v", window)
	}
}

func TestAGivenUpRequestHasNotFailed(t *testing.T) {
	l := &live{}
	l.end(l.begin(0), &record{end: 1, reason: reasonInterrupted})
	if window := l.window(time.Now(), 0, time.Second); window.Failed != 0 || window.InFlight != 1 {
		t.Errorf("%+v", window)
	}
}

// Run with -race: many who end, one who begins and one who reports; each request is in one window.
func TestNoRequestIsLostBetweenWindows(t *testing.T) {
	const count = 20_000
	l, stop := &live{}, make(chan struct{})
	var total Window
	var sums, ended sync.WaitGroup
	sums.Add(1)
	add := func() {
		window := l.window(time.Unix(0, 0), 0, time.Hour)
		total.Due, total.Finished, total.Failed = total.Due+window.Due, total.Finished+window.Finished, total.Failed+window.Failed
	}
	go func() {
		defer sums.Done()
		for {
			select {
			case <-stop:
				return
			default:
				add()
			}
		}
	}()
	for index := range count {
		f := l.begin(time.Duration(index))
		ended.Go(func() {
			result := record{end: time.Second}
			if index%10 == 0 {
				result.reason = reasonTimeout
			}
			l.end(f, &result)
		})
	}
	ended.Wait()
	close(stop)
	sums.Wait()
	add()
	if total.Due != count || total.Finished != count || total.Failed != count/10 || len(l.waiting) != 0 {
		t.Errorf("%+v, %d waiting", total, len(l.waiting))
	}
}

func windowsOf(t *testing.T, output string) []Window {
	t.Helper()
	var windows []Window
	for line := range strings.Lines(output) {
		var window Window
		if err := json.Unmarshal([]byte(line), &window); err != nil {
			t.Fatal(err)
		}
		if window.Event == "window" {
			windows = append(windows, window)
		}
	}
	return windows
}

// livePlan sends 50 requests, one each 10 ms, of which the first 10 are warm-up, and reports each 20 ms.
func livePlan(t *testing.T, document, target string, forget bool) *sender {
	t.Helper()
	plan, workload := makePlan(t, document, func(plan *Plan) {
		plan.Target, plan.RateRPS, plan.Arrivals, plan.WarmupS, plan.WindowS = target, 100, "constant", 0.1, 0.4
		plan.LiveMS, plan.Forget = 20, forget
	})
	s := newSender(plan, workload)
	if err := s.prepare(t.Context(), &Events{Writer: io.Discard}); err != nil {
		t.Fatal(err)
	}
	s.start = time.Now()
	return s
}

func TestALiveRunShowsAStallWhileItLasts(t *testing.T) {
	for _, forget := range []bool{false, true} {
		var arrived atomic.Int64
		release := make(chan struct{})
		target := server(t, func(reply http.ResponseWriter, request *http.Request) {
			if arrived.Add(1) == 50 {
				close(release)
			}
			<-release
		})
		s := livePlan(t, oneClass(60_000, ""), target.URL, forget)
		result, output := executed(t, t.Context(), s)
		var due, finished, most int
		until := s.start.UnixNano()
		for _, window := range windowsOf(t, output) {
			if window.FromNS != until || window.AtNS <= until {
				t.Errorf("a window from %d to %d follows one that ended at %d", window.FromNS, window.AtNS, until)
			}
			until = window.AtNS
			ages, ended := numbers(t, window.Waiting), numbers(t, window.Latencies)
			if len(ages) != window.InFlight || len(ended) != window.Finished || len(ages) > 0 && ages[0] != window.OldestUS {
				t.Errorf("%+v", window)
			}
			if finished == 0 && window.Finished == 0 && window.InFlight > 0 {
				most = max(most, int(window.OldestUS))
			}
			due, finished = due+window.Due, finished+window.Finished
		}
		// The last request is due 490 ms after the first, and nothing is answered before; a window is reported each 20 ms, on a
		// slow machine later.
		if due != 50 || finished != 50 || most == 0 || result.Requests != 50 {
			t.Errorf("%d due, %d finished, the oldest %d us, result of %d", due, finished, most, result.Requests)
		}
	}
}

// Of the same plan a run that forgets sends the same requests, counts the same failures, and keeps no request.
func TestARunThatForgetsSendsTheSame(t *testing.T) {
	document := `{"kind": "workload", "version": 1, "timeout_ms": 60000, "variables": {"x": {"uniform": [1, 1000]}}, "requests": [
	 {"name": "a", "weight": 2, "path": "/good/{seq}/{x}"}, {"name": "b", "weight": 1, "path": "/bad/{seq}/{x}", "method": "POST", "form": {"x": "{x}"}}]}`
	seen := map[bool]map[string]bool{}
	results := map[bool]*Result{}
	for _, forget := range []bool{false, true} {
		var lock sync.Mutex
		paths := map[string]bool{}
		target := server(t, func(reply http.ResponseWriter, request *http.Request) {
			body, _ := io.ReadAll(request.Body)
			lock.Lock()
			defer lock.Unlock()
			paths[request.URL.Path+string(body)] = true
			if strings.HasPrefix(request.URL.Path, "/bad") {
				reply.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		s := livePlan(t, document, target.URL, forget)
		results[forget], _ = executed(t, t.Context(), s)
		seen[forget] = paths
		if forget && len(s.requests)+len(s.records)+len(s.traces)+len(s.wires) != 0 {
			t.Error("it holds requests")
		}
	}
	held, forgot := results[false], results[true]
	if !reflect.DeepEqual(seen[false], seen[true]) || len(seen[true]) != 50 {
		t.Errorf("%d and %d different requests", len(seen[false]), len(seen[true]))
	}
	if held.Columns == "" || forgot.Columns != "" {
		t.Error("columns")
	}
	if !reflect.DeepEqual(held.Errors, forgot.Errors) || !reflect.DeepEqual(held.WarmupErrors, forgot.WarmupErrors) {
		t.Errorf("%v %v, %v %v", held.Errors, held.WarmupErrors, forgot.Errors, forgot.WarmupErrors)
	}
	if held.Latency.Count != 40 || forgot.Latency.Count != 40 || held.Latency.Failed != forgot.Latency.Failed || forgot.Lag.Count != 40 {
		t.Errorf("%+v, %+v", held.Latency, forgot.Latency)
	}
}

func TestAllOfALongSeriesIsMadeAhead(t *testing.T) {
	plan, workload := makePlan(t, socialWorkload, func(plan *Plan) { plan.Forget = true })
	s, schedule := newSender(plan, workload), Schedule(plan, workload)
	stop := make(chan struct{})
	defer close(stop)
	next := s.ahead(stop)
	for index, request := range schedule {
		made, more := next()
		if !more || made.index != index || made.request.Due != request.Due || made.request.Path != request.Path {
			t.Fatalf("request %d: %v %+v, wanted %+v", index, more, made, request)
		}
		if !bytes.Contains(made.wire, []byte(request.Path)) || !bytes.HasSuffix(made.wire, []byte(request.Body)) {
			t.Fatalf("request %d: %q", index, made.wire)
		}
	}
	if made, more := next(); more {
		t.Errorf("one more than %d: %+v", len(schedule), made)
	}
}

func TestAnInterruptedLiveRunEnds(t *testing.T) {
	for _, forget := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		var once sync.Once
		target := server(t, func(_ http.ResponseWriter, request *http.Request) {
			once.Do(cancel)
			<-request.Context().Done()
		})
		result, output := executed(t, ctx, livePlan(t, oneClass(60_000, ""), target.URL, forget))
		if !result.Interrupted || strings.Contains(output, `"done"`) {
			t.Errorf("%+v", result)
		}
		for _, window := range windowsOf(t, output) {
			if window.Failed != 0 {
				t.Errorf("requests that were given up count as failed: %+v", window)
			}
		}
	}
}
