package service

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

const (
	traceID    = "0af7651916cd43dd8448eb211c80319c"
	sampled    = "00-" + traceID + "-b7ad6b7169203331-01"
	notSampled = "00-" + traceID + "-b7ad6b7169203331-00"
)

func send(t *testing.T, s *Service, path, traceparent, tracestate string) {
	t.Helper()
	request := httptest.NewRequest("GET", path, nil)
	if traceparent != "" {
		request.Header.Set("traceparent", traceparent)
		request.Header.Set("tracestate", tracestate)
	}
	answer := httptest.NewRecorder()
	s.mux.ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
	}
}

func nothing(http.ResponseWriter, *http.Request) error { return nil }

func TestSpansAreCountedByPhase(t *testing.T) {
	s, spans := bare(1)
	defer func() { _ = s.Close(context.Background()) }()
	s.Handle("GET /", nothing)
	for range 3 {
		send(t, s, "/", sampled, "tailor=w")
	}
	for range 5 {
		send(t, s, "/", sampled, "other=x,tailor=m")
	}
	send(t, s, "/", sampled, "tailor=?")
	send(t, s, "/", notSampled, "tailor=m")
	send(t, s, "/", "", "")
	if err := s.tracing.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := SpanCounts{Created: PhaseCounts{3, 5}, Exported: PhaseCounts{3, 5}}
	if got := s.tracing.Counts(); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	// Those without a mark are exported all the same, the unsampled one is not.
	if got := len(spans.GetSpans()); got != 3+5+1+1 {
		t.Errorf("%d spans exported", got)
	}
}

func TestCountersOnTheAdminPort(t *testing.T) {
	s, _ := bare(1)
	defer func() { _ = s.Close(context.Background()) }()
	s.Handle("GET /", nothing)
	send(t, s, "/", sampled, "tailor=m")
	answer := httptest.NewRecorder()
	s.AdminRoutes().ServeHTTP(answer, httptest.NewRequest("POST", "/flush", nil))
	var got map[string]any
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"created", "exported"} {
		counts, _ := got[end].(map[string]any)
		if counts["w"] != 0.0 || counts["m"] != 1.0 {
			t.Errorf("%s: %v", end, got)
		}
	}
	if got["failed"] != 0.0 {
		t.Errorf("failed: %v", got)
	}
}

type refusing struct{ sdktrace.SpanExporter }

func (refusing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	return errors.New("the collector is away")
}

func TestSpansThatNobodyTakesAreCountedAsFailed(t *testing.T) {
	s, spans := bare(1)
	s.tracing = newTracing("under-test", true, refusing{spans})
	defer func() { _ = s.Close(context.Background()) }()
	s.Handle("GET /", nothing)
	send(t, s, "/", sampled, "tailor=m")
	if err := s.tracing.Flush(t.Context()); err == nil {
		t.Error("the flush should say that the export failed")
	}
	want := SpanCounts{Created: PhaseCounts{0, 1}, Failed: 1}
	if got := s.tracing.Counts(); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

func TestSwitchedOffTracingStartsNoTraceButFollowsTheCaller(t *testing.T) {
	s, spans := bare(1)
	s.tracing = newTracing("under-test", false, spans)
	defer func() { _ = s.Close(context.Background()) }()
	s.Handle("GET /", nothing)
	send(t, s, "/", "", "")
	send(t, s, "/", sampled, "tailor=m")
	if err := s.tracing.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(spans.GetSpans()); got != 1 {
		t.Errorf("%d spans", got)
	}
}

// One trace goes through two services and to a store, and carries its phase.
func TestContextTravels(t *testing.T) {
	below, belowSpans := bare(1)
	defer func() { _ = below.Close(context.Background()) }()
	below.Handle("GET /below", nothing)
	server := httptest.NewServer(below.mux)
	defer server.Close()

	above, aboveSpans := bare(1)
	defer func() { _ = above.Close(context.Background()) }()
	client, err := above.ClientAt("below", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := above.MemcachedAt("cache", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	above.Handle("GET /above", func(_ http.ResponseWriter, r *http.Request) error {
		if _, err := cache.Get(r.Context(), "key"); err == nil {
			t.Error("there is no cache")
		}
		_, err := client.Get(r.Context(), "/below", nil)
		return err
	})
	send(t, above, "/above", sampled, "tailor=m")
	for _, s := range []*Service{above, below} {
		if err := s.tracing.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := below.tracing.Counts().Exported.Measured; got != 1 {
		t.Errorf("the phase did not arrive: %d", got)
	}
	kinds := map[trace.SpanKind]tracetest.SpanStub{}
	for _, span := range belowSpans.GetSpans() {
		kinds[span.SpanKind] = span
	}
	byName := map[string]tracetest.SpanStub{}
	for _, span := range aboveSpans.GetSpans() {
		byName[span.Name] = span
		if got := span.SpanContext.TraceID().String(); got != traceID {
			t.Errorf("%s is in trace %s", span.Name, got)
		}
	}
	call, get, root := byName["GET /below"], byName["get"], byName["GET /above"]
	if root.SpanKind != trace.SpanKindServer || call.SpanKind != trace.SpanKindClient || get.SpanKind != trace.SpanKindClient {
		t.Errorf("kinds: %v %v %v", root.SpanKind, call.SpanKind, get.SpanKind)
	}
	if kinds[trace.SpanKindServer].Parent.SpanID() != call.SpanContext.SpanID() {
		t.Error("the server span is not the client span's child")
	}
	for span, want := range map[string]map[string]string{
		"GET /below": {"peer.service": "below", "server.address": "below"},
		"get": {"peer.service": "cache", "server.address": "cache", "db.system.name": "memcached",
			"db.operation.name": "get"},
	} {
		got := map[string]string{}
		for _, attribute := range byName[span].Attributes {
			got[string(attribute.Key)] = attribute.Value.Emit()
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", span, key, got[key], value)
			}
		}
	}
}
