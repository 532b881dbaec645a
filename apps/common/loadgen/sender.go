package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
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
	wires    [][]byte // each request as it goes over a connection
	host     string
	pool     *connections
	start    time.Time
	inFlight atomic.Int64
	sent     atomic.Int64
	failed   atomic.Int64
	group    sync.WaitGroup
}

// newSender derives the schedule; the caller sets when it starts.
func newSender(plan *Plan, workload *Workload) *sender {
	requests, host := Schedule(plan, workload), plan.target.Host
	s := &sender{
		plan: plan, workload: workload, requests: requests, records: make([]record, len(requests)),
		traces: newTraceIDs(len(requests)), wires: make([][]byte, len(requests)), limit: maxInFlight,
		host: host, pool: newConnections(address(plan.target), secured(plan.target)),
	}
	for index := range requests {
		s.wires[index] = s.wire(index)
		s.requests[index].Headers, s.requests[index].Body = nil, "" // they live in the wire
	}
	return s
}

// address is where to connect to, with HTTP's port unless another is given.
func address(target *url.URL) string {
	port := target.Port()
	if port == "" && target.Scheme == "https" {
		port = "443"
	} else if port == "" {
		port = "80"
	}
	return net.JoinHostPort(target.Hostname(), port)
}

// secured is how a connection to the target is encrypted, nil where it is not.  Certificates are not checked: inside the
// application's own network a service is called by a name that its certificate does not have.
func secured(target *url.URL) *tls.Config {
	if target.Scheme != "https" {
		return nil
	}
	return &tls.Config{ServerName: target.Hostname(), InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}} //nolint:gosec // see above
}

// run sends everything and returns when the last reply is there, has timed out, or the context is cancelled.
func (s *sender) run(ctx context.Context) error {
	timer, err := newTimer(s.start)
	if err != nil {
		return err
	}
	defer timer.close()
	defer context.AfterFunc(ctx, timer.stop)()
	defer context.AfterFunc(ctx, s.pool.stop)()
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
	class := s.workload.Classes[s.requests[index].Class]
	// The time to answer counts from the due time, as the latency does.
	deadline := s.start.Add(s.requests[index].Due + s.workload.Timeout)
	result := record{sent: time.Since(s.start)}
	status, body, err := s.exchange(ctx, index, deadline, &result.sent)
	result.end, result.status = time.Since(s.start), int16(status)
	switch {
	case err == nil:
		result.reason = class.Expect.judge(status, body)
	case ctx.Err() != nil:
		result.reason = reasonInterrupted
	default:
		result.reason = classify(err)
	}
	return result
}

// exchange uses a kept connection or else a new one.  “sent“ is set to when the request was handed to a kept one; on
// a new one that moment comes after the service accepted it, which is the service's time and not the generator's lag.
// A GET or HEAD is repeated when the service closed the kept connection just then, as any HTTP client does.
func (s *sender) exchange(ctx context.Context, index int, deadline time.Time, sent *time.Duration) (int, []byte, error) {
	class := s.workload.Classes[s.requests[index].Class]
	if kept := s.pool.kept(); kept != nil {
		*sent = time.Since(s.start)
		status, body, err := s.over(kept, index, deadline)
		var unanswered errUnanswered
		repeatable := class.Method == http.MethodGet || class.Method == http.MethodHead
		if !repeatable || !errors.As(err, &unanswered) || classify(err) == reasonTimeout || ctx.Err() != nil {
			return status, body, err
		}
	}
	made, err := s.pool.dial(ctx, deadline)
	if err != nil {
		return 0, nil, err
	}
	return s.over(made, index, deadline)
}

// over sends a request over a connection, which then goes back to the pool or is closed.
func (s *sender) over(c *connection, index int, deadline time.Time) (int, []byte, error) {
	class := s.workload.Classes[s.requests[index].Class]
	status, body, reusable, err := 0, []byte(nil), false, c.SetDeadline(deadline)
	if err == nil {
		status, body, reusable, err = c.exchange(s.wires[index], class.Method, class.Expect.needsBody())
	}
	if reusable {
		s.pool.keep(c)
	} else {
		s.pool.drop(c)
	}
	return status, body, err
}

// wire is a request as it goes over the connection.
func (s *sender) wire(index int) []byte {
	request := &s.requests[index]
	method := s.workload.Classes[request.Class].Method
	host, state := s.host, "tailor=w"
	if s.measured(index) {
		state = "tailor=m"
	}
	var lines strings.Builder
	for _, header := range request.Headers {
		if header.Name == "Host" {
			host = header.Value
			continue
		}
		fmt.Fprintf(&lines, "%s: %s\r\n", header.Name, header.Value)
	}
	if request.Body != "" || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch {
		fmt.Fprintf(&lines, "Content-Length: %d\r\n", len(request.Body))
	}
	carried := s.traces[index].context(s.plan.Propagation, s.plan.Trace, state)
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tailor-loadgen\r\n%s%s\r\n%s",
		method, request.Path, host, carried, lines.String(), request.Body)
}
