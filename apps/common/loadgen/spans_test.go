package loadgen

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func TestEveryRequestHasOneRootSpan(t *testing.T) {
	var lock sync.Mutex
	headers, spans, refusals := map[string]string{}, map[string]*trace.Span{}, 0
	target := server(t, func(reply http.ResponseWriter, request *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		if request.URL.Path != "/v1/traces" {
			headers[request.Header.Get("traceparent")] = request.Header.Get("tracestate")
			return
		}
		if refusals == 0 { // the collector is busy at first
			refusals++
			reply.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		data, _ := io.ReadAll(request.Body)
		var message collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(data, &message); err != nil {
			t.Error(err)
		}
		resource := message.ResourceSpans[0]
		if name := resource.Resource.Attributes[0].Value.GetStringValue(); name != "loadgen" {
			t.Errorf("service.name %q", name)
		}
		for _, span := range resource.ScopeSpans[0].Spans {
			spans[fmt.Sprintf("00-%x-%x-01", span.TraceId, span.SpanId)] = span
		}
	})
	s, result := runTraced(t, oneClass(60_000, ""), target.URL)
	if result.SpansCreated != 40 || result.SpansExported != 40 || result.SpansProblem != "" || len(spans) != 50 {
		t.Errorf("created %d, exported %d, arrived %d, %q", result.SpansCreated, result.SpansExported, len(spans), result.SpansProblem)
	}
	for index, request := range s.requests {
		parent := s.traces[index].parent(true)
		state := "tailor=m"
		if index < 10 {
			state = "tailor=w"
		}
		span, began := spans[parent], s.start.UnixNano()
		if span == nil || headers[parent] != state || span.TraceState != state || span.Name != "a" ||
			span.Kind != trace.Span_SPAN_KIND_CLIENT || len(span.ParentSpanId) != 0 ||
			int64(span.StartTimeUnixNano) != began+int64(request.Due) ||
			int64(span.EndTimeUnixNano) != began+int64(s.records[index].end) {
			t.Errorf("request %d: header %q, span %v", index, headers[parent], span)
		}
	}
}

func TestLostSpansAreNotCountedAsExported(t *testing.T) {
	target := server(t, func(reply http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/v1/traces" {
			reply.WriteHeader(http.StatusBadRequest)
		}
		if sampled := strings.HasSuffix(request.Header.Get("traceparent"), "-01"); request.URL.Path == "/" && !sampled {
			t.Error("a request is not sampled")
		}
	})
	_, result := runTraced(t, oneClass(60_000, ""), target.URL)
	if result.SpansCreated != 40 || result.SpansExported != 0 || !strings.Contains(result.SpansProblem, "400") {
		t.Errorf("%d, %d, %q", result.SpansCreated, result.SpansExported, result.SpansProblem)
	}
}

func TestTheContextIsSentInTheFormatsThatAreAskedFor(t *testing.T) {
	id := &traceID{trace: [16]byte{1}, span: [8]byte{2}}
	trace, span := "01"+strings.Repeat("0", 30), "02"+strings.Repeat("0", 14)
	for format, expected := range map[string]string{
		"":         "Traceparent: 00-" + trace + "-" + span + "-01\r\nTracestate: tailor=m\r\n",
		"w3c":      "Traceparent: 00-" + trace + "-" + span + "-01\r\nTracestate: tailor=m\r\n",
		"b3":       "b3: " + trace + "-" + span + "-1\r\n",
		"b3-multi": "X-B3-TraceId: " + trace + "\r\nX-B3-SpanId: " + span + "\r\nX-B3-Sampled: 1\r\n",
		"jaeger":   "uber-trace-id: " + trace + ":" + span + ":0:1\r\n",
	} {
		var formats []string
		if format != "" {
			formats = []string{format}
		}
		if found := id.context(formats, true, "tailor=m"); found != expected {
			t.Errorf("%s: found %q, expected %q", format, found, expected)
		}
	}
}

func TestReportedRootSpansAreNotExportedAndTheirIDsAreThoseThatWereSent(t *testing.T) {
	var lock sync.Mutex
	sent := map[string]bool{}
	target := server(t, func(reply http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/" {
			t.Errorf("a call to %s", request.URL.Path)
		}
		lock.Lock()
		defer lock.Unlock()
		sent[request.Header.Get("traceparent")] = true
	})
	plan, workload := makePlan(t, oneClass(60_000, ""), func(plan *Plan) {
		plan.Target, plan.RateRPS, plan.Arrivals, plan.WarmupS, plan.WindowS = target.URL, 100, "constant", 0.1, 0.4
		plan.Trace, plan.Roots = true, "report"
	})
	s := newSender(plan, workload)
	s.start = time.Now()
	result, _ := executed(t, t.Context(), s)
	packed, err := base64.StdEncoding.DecodeString(result.IDs)
	if err != nil || len(packed) != 24*len(s.requests) || len(sent) != len(s.requests) {
		t.Fatalf("%v: %d bytes for %d requests, %d sent", err, len(packed), len(s.requests), len(sent))
	}
	for index := range s.requests {
		id := packed[24*index : 24*index+24]
		if !sent[fmt.Sprintf("00-%x-%x-01", id[:16], id[16:])] {
			t.Errorf("request %d: no request bore its id", index)
		}
	}
	if result.SpansCreated != 40 || result.SpansExported != 40 {
		t.Errorf("created %d, exported %d", result.SpansCreated, result.SpansExported)
	}
}

func TestRunsWithoutReportHaveNoIDs(t *testing.T) {
	target := server(t, func(reply http.ResponseWriter, request *http.Request) {})
	if _, result, _ := runPlan(t, t.Context(), oneClass(60_000, ""), target.URL, nil); result.IDs != "" {
		t.Errorf("ids without traces: %q", result.IDs)
	}
}
