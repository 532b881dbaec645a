package loadgen

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// record is what became of one request; times count from the start of the warm-up.
type record struct {
	sent, end time.Duration
	status    int16
	reason    string // "" for a good reply
}

// maxInFlight bounds what a service that has stopped answering can make the generator hold.  Past it a request fails
// with a reason of its own; it is never delayed.
const maxInFlight = 20_000

// sender sends the requests of a schedule, each at its due time and in its own goroutine.
type sender struct {
	plan     *Plan
	workload *Workload
	requests []Request
	records  []record
	traces   []traceID
	limit    int64
	client   *http.Transport
	start    time.Time
	inFlight atomic.Int64
	sent     atomic.Int64
	failed   atomic.Int64
	group    sync.WaitGroup
}

// newSender derives the schedule; the caller sets when it starts.
func newSender(plan *Plan, workload *Workload) *sender {
	requests := Schedule(plan, workload)
	return &sender{
		plan: plan, workload: workload, requests: requests, records: make([]record, len(requests)),
		traces: newTraceIDs(len(requests)), limit: maxInFlight, client: newTransport(),
	}
}

// newTransport keeps every connection: replies are not decompressed, redirects not followed (RoundTrip does neither),
// proxies not used.  net/http itself repeats a GET whose kept connection turned out to be closed; a POST fails.
func newTransport() *http.Transport {
	return &http.Transport{
		MaxIdleConns:        maxInFlight,
		MaxIdleConnsPerHost: maxInFlight,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true,
	}
}

// run sends everything and returns when the last reply is there, has timed out, or the context is cancelled.
func (s *sender) run(ctx context.Context) error {
	timer, err := newTimer(s.start)
	if err != nil {
		return err
	}
	defer timer.close()
	defer context.AfterFunc(ctx, timer.stop)()
	defer s.group.Wait()
	for index := range s.requests {
		due := s.requests[index].Due
		if err := timer.wait(due); ctx.Err() != nil {
			s.interrupt(index)
			return nil
		} else if err != nil {
			return err
		}
		if s.inFlight.Add(1) > s.limit {
			s.inFlight.Add(-1)
			now := time.Since(s.start)
			s.finish(index, record{sent: now, end: now, reason: reasonInFlight})
			continue
		}
		s.group.Add(1)
		go func() {
			defer s.group.Done()
			defer s.inFlight.Add(-1)
			s.finish(index, s.send(ctx, index))
		}()
	}
	return nil
}

func (s *sender) finish(index int, result record) {
	s.records[index] = result
	s.sent.Add(1)
	if result.reason != "" {
		s.failed.Add(1)
	}
}

// interrupt marks what will not be sent.
func (s *sender) interrupt(from int) {
	now := time.Since(s.start)
	for index := from; index < len(s.records); index++ {
		s.records[index] = record{sent: now, end: now, reason: reasonInterrupted}
	}
}

// measured says whether a request belongs to the window: by when it is due, not by when it was sent.
func (s *sender) measured(index int) bool { return s.requests[index].Due >= s.plan.Warmup() }

func (s *sender) send(ctx context.Context, index int) record {
	scheduled := &s.requests[index]
	class := s.workload.Classes[scheduled.Class]
	// The time to answer counts from the due time, as the latency does.
	ctx, cancel := context.WithDeadline(ctx, s.start.Add(scheduled.Due+s.workload.Timeout))
	defer cancel()
	var written atomic.Int64
	result := record{sent: time.Since(s.start)}
	request, err := s.prepare(s.watch(ctx, &written), index)
	if err == nil {
		var reply *http.Response
		if reply, err = s.client.RoundTrip(request); err == nil {
			var body []byte
			body, err = readBody(reply, class.Expect.needsBody())
			result.end = time.Since(s.start)
			_ = reply.Body.Close() // read to its end or broken: nothing is left to fail
			result.status = int16(reply.StatusCode)
			if err == nil {
				result.reason = class.Expect.judge(reply.StatusCode, body)
			}
		}
	}
	if err != nil {
		if result.end == 0 {
			result.end = time.Since(s.start)
		}
		result.reason = classify(err)
	}
	if at := written.Load(); at != 0 {
		result.sent = time.Duration(at)
	}
	return result
}

// watch notes when the request's bytes were handed to a kept connection.  On a new connection that moment comes after
// the service accepted it, which is the service's time and not the generator's lag; there the sending goroutine's
// own start counts.
func (s *sender) watch(ctx context.Context, written *atomic.Int64) context.Context {
	var kept atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { kept.Store(info.Reused) },
		WroteRequest: func(httptrace.WroteRequestInfo) {
			if kept.Load() {
				written.CompareAndSwap(0, int64(time.Since(s.start)))
			}
		},
	})
}

func (s *sender) prepare(ctx context.Context, index int) (*http.Request, error) {
	scheduled := &s.requests[index]
	method := s.workload.Classes[scheduled.Class].Method
	var request *http.Request
	var err error
	if scheduled.Body == "" {
		request, err = http.NewRequestWithContext(ctx, method, scheduled.URL, nil)
	} else {
		request, err = http.NewRequestWithContext(ctx, method, scheduled.URL, strings.NewReader(scheduled.Body))
	}
	if err != nil {
		return nil, err
	}
	request.Header["User-Agent"] = []string{"tailor-loadgen"}
	for _, header := range scheduled.Headers {
		request.Header[header.Name] = []string{header.Value}
		if header.Name == "Host" {
			request.Host = header.Value
		}
	}
	state := "tailor=w"
	if s.measured(index) {
		state = "tailor=m"
	}
	request.Header["Traceparent"] = []string{s.traces[index].parent(s.plan.Trace)}
	request.Header["Tracestate"] = []string{state}
	return request, nil
}
