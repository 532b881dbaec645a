package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func server(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	started := httptest.NewServer(handler)
	t.Cleanup(started.Close)
	return started
}

func oneClass(timeoutMS int, rest string) string {
	return fmt.Sprintf(`{"kind": "workload", "version": 1, "timeout_ms": %d, "requests": [{"name": "a", "weight": 1, "path": "/" %s}]}`, timeoutMS, rest)
}

// runPlan sends 50 requests, one each 10 ms, of which the first 10 are warm-up; change acts on the sender before.
func runPlan(t *testing.T, ctx context.Context, document, target string, change func(*sender)) (*sender, *Result, string) {
	t.Helper()
	plan, workload := shortPlan(t, document, target, false)
	s := newSender(plan, workload)
	if err := s.prepare(t.Context(), &Events{Writer: io.Discard}); err != nil {
		t.Fatal(err)
	}
	s.start = time.Now()
	if change != nil {
		change(s)
	}
	result, output := executed(t, ctx, s)
	return s, result, output
}

// runTraced is the same with spans, which the target takes as well.
func runTraced(t *testing.T, document, target string) (*sender, *Result) {
	t.Helper()
	plan, workload := shortPlan(t, document, target, true)
	s := newSender(plan, workload)
	if err := s.prepare(t.Context(), &Events{Writer: io.Discard}); err != nil {
		t.Fatal(err)
	}
	s.start = time.Now()
	result, _ := executed(t, t.Context(), s)
	return s, result
}

func shortPlan(t *testing.T, document, target string, traced bool) (*Plan, *Workload) {
	t.Helper()
	return makePlan(t, document, func(plan *Plan) {
		plan.Target, plan.RateRPS, plan.Arrivals, plan.WarmupS, plan.WindowS = target, 100, "constant", 0.1, 0.4
		plan.Trace, plan.OTLPEndpoint = traced, target
	})
}

func executed(t *testing.T, ctx context.Context, s *sender) (*Result, string) {
	t.Helper()
	defer s.caller.stop()
	var output bytes.Buffer
	result, err := s.execute(ctx, &Events{Writer: &output})
	if err != nil {
		t.Fatal(err)
	}
	return result, output.String()
}

// A service that stalls must not slow the sending down: all requests arrive while not one has been answered, and each
// latency covers the whole stall since the request was due (no coordinated omission).
func TestStalledServiceDoesNotDelayRequests(t *testing.T) {
	var arrived atomic.Int64
	release := make(chan struct{})
	target := server(t, func(reply http.ResponseWriter, request *http.Request) {
		if arrived.Add(1) == 50 {
			close(release)
		}
		<-release
	})
	s, result, _ := runPlan(t, t.Context(), oneClass(60_000, ""), target.URL, nil)
	last := s.requests[49].Due
	for index := range s.records {
		due, outcome := s.requests[index].Due, s.records[index]
		if outcome.reason != "" || outcome.sent < due || outcome.end-due < last-due {
			t.Errorf("request %d: due %v, sent %v, ended %v, %q", index, due, outcome.sent, outcome.end, outcome.reason)
		}
	}
	if maximum := result.Latency.Quantiles["max"]; maximum == nil || *maximum < 390 {
		t.Errorf("longest latency of the window: %v ms; the stall lasted 390 ms", maximum)
	}
}

func TestLateSendingIsLagAndPartOfTheLatency(t *testing.T) {
	target := server(t, func(reply http.ResponseWriter, request *http.Request) {})
	s, result, _ := runPlan(t, t.Context(), oneClass(60_000, ""), target.URL, func(s *sender) {
		s.start = s.start.Add(-10 * time.Second) // everything was due long ago
	})
	for index, outcome := range s.records {
		due := s.requests[index].Due
		if lag := outcome.sent - due; lag < 9*time.Second || outcome.end-due < lag {
			t.Errorf("request %d: lag %v, latency %v", index, lag, outcome.end-due)
		}
	}
	if lag := result.Lag.Quantiles["p50"]; lag == nil || *lag < 9000 {
		t.Errorf("lag p50 %v ms", lag)
	}
}

// hijack answers with these bytes and closes.
func hijack(text string) http.HandlerFunc {
	return func(reply http.ResponseWriter, request *http.Request) {
		connection, buffer, err := reply.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = buffer.WriteString(text)
		_ = buffer.Flush()
		_ = connection.Close()
	}
}

func TestFailuresAreClassified(t *testing.T) {
	answer := func(status int, body string) http.HandlerFunc {
		return func(reply http.ResponseWriter, request *http.Request) {
			reply.WriteHeader(status)
			_, _ = io.WriteString(reply, body)
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		rest    string
		reason  string
	}{
		"good":               {answer(200, "fine"), "", ""},
		"created":            {answer(201, "fine"), "", ""},
		"redirect":           {answer(302, ""), "", "status 302"},
		"server error":       {answer(503, ""), "", "status 503"},
		"wanted status":      {answer(404, ""), `, "expect": {"status": 404}`, ""},
		"other status":       {answer(201, ""), `, "expect": {"status": 200}`, "status 201"},
		"wanted body":        {answer(200, "fine"), `, "expect": {"body": "^fi"}`, ""},
		"other body":         {answer(200, "no"), `, "expect": {"body": "^fi"}`, reasonBody},
		"enough items":       {answer(200, `[{}, 2]`), `, "expect": {"min_items": 2}`, ""},
		"too few items":      {answer(200, `[{}]`), `, "expect": {"min_items": 2}`, reasonItems},
		"not an array":       {answer(200, `{"a": 1}`), `, "expect": {"min_items": 0}`, reasonItems},
		"truncated body":     {hijack("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), "", reasonTruncated},
		"truncated chunks":   {hijack("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), "", reasonTruncated},
		"truncated header":   {hijack("HTTP/1.1 200 OK\r\n"), "", reasonTruncated},
		"closed":             {hijack(""), "", reasonClosed},
		"not HTTP":           {hijack("SSH-2.0\r\n\r\n"), "", reasonUnreadable},
		"no answer in time":  {func(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() }, "", reasonTimeout},
		"no answer, started": {stalledBody, "", reasonTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 60_000
			if test.reason == reasonTimeout {
				timeout = 50
			}
			s, result, _ := runPlan(t, t.Context(), oneClass(timeout, test.rest), server(t, test.handler).URL, nil)
			for index, outcome := range s.records {
				if outcome.reason != test.reason {
					t.Fatalf("request %d: %q, wanted %q", index, outcome.reason, test.reason)
				}
			}
			if test.reason != "" && (result.Errors[test.reason]["a"] != 40 || result.WarmupErrors[test.reason]["a"] != 10) {
				t.Errorf("errors %v, warm-up %v", result.Errors, result.WarmupErrors)
			}
			if test.reason == "" && (len(result.Errors) != 0 || result.Latency.Failed != 0) {
				t.Errorf("errors %v", result.Errors)
			}
		})
	}
}

func stalledBody(reply http.ResponseWriter, request *http.Request) {
	reply.Header().Set("Content-Length", "10")
	_, _ = io.WriteString(reply, "abc")
	reply.(http.Flusher).Flush()
	<-request.Context().Done()
}

// On a quiet service one connection serves all requests, and a service that closes kept connections, without having
// said so, costs nothing but another connection.
func TestConnectionsAreKeptAndClosedOnesReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		closes bool
		most   int64
	}{"kept": {false, 49}, "closed": {true, 50}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opened atomic.Int64
			started := httptest.NewUnstartedServer(http.HandlerFunc(func(reply http.ResponseWriter, request *http.Request) {
				_, _ = io.Copy(io.Discard, request.Body)
				if test.closes {
					hijack("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")(reply, request)
				}
			}))
			started.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					opened.Add(1)
				}
			}
			started.Start()
			t.Cleanup(started.Close)
			_, result, _ := runPlan(t, t.Context(), oneClass(60_000, `, "form": {"a": "b"}, "method": "POST"`), started.URL, nil)
			if found := opened.Load(); len(result.Errors) != 0 || found > test.most || test.closes && found != 50 {
				t.Errorf("%d connections, errors %v", found, result.Errors)
			}
		})
	}
}

func TestEarlyHintsAreNotTheReply(t *testing.T) {
	target := server(t, func(reply http.ResponseWriter, request *http.Request) {
		reply.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(reply, "fine")
	})
	s, result, _ := runPlan(t, t.Context(), oneClass(60_000, `, "expect": {"status": 200, "body": "fine"}`), target.URL, nil)
	if len(result.Errors) != 0 || s.records[0].status != 200 {
		t.Errorf("status %d, errors %v", s.records[0].status, result.Errors)
	}
}

func TestRequestsArriveAsTheWorkloadSays(t *testing.T) {
	document := `{"kind": "workload", "version": 1, "timeout_ms": 60000, "requests": [{"name": "a", "weight": 1, "method": "PUT",
	 "path": "/a b/{seq}", "query": {"q": "x&y"}, "body": "{{}}", "headers": {"host": "other", "x-number": "{seq}"}}]}`
	var lock sync.Mutex
	seen := map[string]bool{}
	target := server(t, func(reply http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		lock.Lock()
		defer lock.Unlock()
		seen[fmt.Sprint(request.Method, request.URL.Path, request.URL.Query(), request.Host, request.Header["X-Number"], string(body), err)] = true
	})
	runPlan(t, t.Context(), document, target.URL+"/base", nil)
	for _, number := range []int{0, 49} {
		if want := fmt.Sprintf("PUT/base/a b/%dmap[q:[x&y]]other[%d]{}<nil>", number, number); !seen[want] {
			t.Errorf("%q did not arrive", want)
		}
	}
	if len(seen) != 50 {
		t.Errorf("%d different requests", len(seen))
	}
}

func TestNobodyListens(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	_, result, _ := runPlan(t, t.Context(), oneClass(1000, ""), closed.URL, nil)
	if result.Errors[reasonRefused]["a"] != 40 || result.Latency.Quantiles["p50"] != nil {
		t.Errorf("%+v", result)
	}
}

func TestInFlightLimitFailsAtOnce(t *testing.T) {
	release := make(chan struct{})
	target := server(t, func(http.ResponseWriter, *http.Request) { <-release })
	_, result, _ := runPlan(t, t.Context(), oneClass(60_000, ""), target.URL, func(s *sender) {
		s.limit = 3
		go func() {
			for s.failed.Load() < 47 {
				time.Sleep(time.Millisecond)
			}
			close(release)
		}()
	})
	if result.Errors[reasonInFlight]["a"] != 40 || result.WarmupErrors[reasonInFlight]["a"] != 7 {
		t.Errorf("errors %v, warm-up %v", result.Errors, result.WarmupErrors)
	}
}

func TestInterruptionMarksTheRest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	target := server(t, func(_ http.ResponseWriter, request *http.Request) {
		once.Do(cancel)
		<-request.Context().Done()
	})
	_, result, output := runPlan(t, ctx, oneClass(60_000, ""), target.URL, nil)
	if !result.Interrupted || result.Errors[reasonInterrupted]["a"] != 40 || result.SpansCreated != 0 {
		t.Errorf("%+v", result)
	}
	if strings.Contains(output, `"drain"`) || strings.Contains(output, `"done"`) {
		t.Errorf("an interrupted run reports that it came to its end: %s", output)
	}
}

func TestPhasesComeInOrder(t *testing.T) {
	target := server(t, func(http.ResponseWriter, *http.Request) {})
	_, _, output := runPlan(t, t.Context(), oneClass(60_000, ""), target.URL, nil)
	var names []string
	for line := range strings.Lines(output) {
		var phase Phase
		if err := json.Unmarshal([]byte(line), &phase); err != nil {
			t.Fatal(err)
		}
		if phase.Event == "phase" {
			names = append(names, phase.Name)
		}
	}
	if found := strings.Join(names, " "); found != "warmup window drain done" {
		t.Errorf("phases: %s", found)
	}
}

func TestEncryptedConnectionsAreKept(t *testing.T) {
	var connections atomic.Int64
	target := httptest.NewUnstartedServer(http.HandlerFunc(func(reply http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(reply, "good") // a broken reply shows as a failed request
	}))
	target.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	target.StartTLS()
	t.Cleanup(target.Close)
	_, result, _ := runPlan(t, t.Context(), oneClass(2000, `, "expect": {"body": "good"}`), target.URL, nil)
	if len(result.Errors) != 0 {
		t.Fatalf("failed: %v", result.Errors)
	}
	if made := connections.Load(); made > 40 { // a few, unless the machine is too slow to answer one in 10 ms
		t.Errorf("%d connections for 50 requests, one after the other", made)
	}
}
