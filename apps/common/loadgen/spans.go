package loadgen

import (
	"bytes"
	"context"
	crypto "crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traceID is a request's trace and the id of its root span.
type traceID struct {
	trace [16]byte
	span  [8]byte
}

// newTraceIDs does not use the plan's seed: repetitions share it, and their traces may meet in one Jaeger.
func newTraceIDs(count int) []traceID {
	var seed [32]byte
	_, _ = crypto.Read(seed[:]) // never fails (crypto/rand)
	random, ids := rand.NewChaCha8(seed), make([]traceID, count)
	for index := range ids {
		_, _ = random.Read(ids[index].trace[:]) // never fails (math/rand/v2)
		_, _ = random.Read(ids[index].span[:])
		ids[index].trace[0] |= 1 // an id of zeros would be invalid
		ids[index].span[0] |= 1
	}
	return ids
}

// packedIDs is base64(trace[16] span[8] ...) of all requests, in their order.  Random bytes cannot be compressed.
func packedIDs(ids []traceID) string {
	packed := make([]byte, 0, len(ids)*(len(traceID{}.trace)+len(traceID{}.span)))
	for index := range ids {
		packed = append(append(packed, ids[index].trace[:]...), ids[index].span[:]...)
	}
	return base64.StdEncoding.EncodeToString(packed)
}

// parent is the W3C traceparent header; services leave a request that is not sampled out of their spans.
func (id *traceID) parent(sampled bool) string {
	return "00-" + hex.EncodeToString(id.trace[:]) + "-" + hex.EncodeToString(id.span[:]) + "-0" + sampling(sampled)
}

// propagators write a trace's context as header lines, by the name of the format.
var propagators = map[string]func(id *traceID, sampled bool, state string) string{
	// W3C Trace Context
	"w3c": func(id *traceID, sampled bool, state string) string {
		return fmt.Sprintf("Traceparent: %s\r\nTracestate: %s\r\n", id.parent(sampled), state)
	},
	// B3, in one header
	"b3": func(id *traceID, sampled bool, _ string) string {
		return fmt.Sprintf("b3: %x-%x-%s\r\n", id.trace, id.span, sampling(sampled))
	},
	// B3, in several headers
	"b3-multi": func(id *traceID, sampled bool, _ string) string {
		return fmt.Sprintf("X-B3-TraceId: %x\r\nX-B3-SpanId: %x\r\nX-B3-Sampled: %s\r\n", id.trace, id.span, sampling(sampled))
	},
	// Jaeger's own: trace, span, parent (always 0), flags
	"jaeger": func(id *traceID, sampled bool, _ string) string {
		return fmt.Sprintf("uber-trace-id: %x:%x:0:%s\r\n", id.trace, id.span, sampling(sampled))
	},
}

func sampling(sampled bool) string {
	if sampled {
		return "1"
	}
	return "0"
}

// context is the header lines that carry a trace's context in each of the formats; none: W3C's.
func (id *traceID) context(formats []string, sampled bool, state string) string {
	if len(formats) == 0 {
		formats = []string{"w3c"}
	}
	var lines strings.Builder
	for _, format := range formats {
		lines.WriteString(propagators[format](id, sampled, state))
	}
	return lines.String()
}

// spanCount says how many root spans of the window were made, and how many the collector took.
type spanCount struct {
	created, exported int
	problem           string // the last error of an export, "" if there was none
}

const (
	spansPerExport = 1000
	exportAttempts = 4
	exportTimeout  = 20 * time.Second
)

// exportSpans builds the root spans of all requests and sends them to the collector.  It runs after the last reply,
// so that it cannot disturb the sending.  A batch holds spans of one phase only: the window's count is exact.
// Root spans that are reported are not lost on the way to a collector: they count as exported.
func (s *sender) exportSpans(ctx context.Context) spanCount {
	var count spanCount
	if s.plan.reports() {
		for index := range s.requests {
			if s.measured(index) {
				count.created++
			}
		}
		count.exported = count.created
	}
	if !s.plan.exports() {
		return count
	}
	client := &http.Client{Timeout: exportTimeout}
	for from := 0; from < len(s.requests); {
		measured, to := s.measured(from), from
		var spans []*trace.Span
		for ; to < len(s.requests) && to-from < spansPerExport && s.measured(to) == measured; to++ {
			spans = append(spans, s.rootSpan(to, s.plan.target.Hostname()))
		}
		taken, err := exportBatch(ctx, client, s.plan.OTLPEndpoint+"/v1/traces", spans)
		if err != nil {
			count.problem = err.Error()
		}
		if measured {
			count.created += len(spans)
			count.exported += taken
		}
		from = to
	}
	return count
}

func (s *sender) rootSpan(index int, peer string) *trace.Span {
	request, result, id := &s.requests[index], &s.records[index], &s.traces[index]
	class, started := s.workload.Classes[request.Class], s.start.UnixNano()
	span := &trace.Span{
		TraceId:           id.trace[:],
		SpanId:            id.span[:],
		TraceState:        "tailor=w",
		Name:              class.Name,
		Kind:              trace.Span_SPAN_KIND_CLIENT,
		StartTimeUnixNano: uint64(started + int64(request.Due)),
		EndTimeUnixNano:   uint64(started + int64(result.end)),
		Attributes:        []*common.KeyValue{attribute("http.request.method", class.Method), attribute("peer.service", peer)},
		Flags:             1, // sampled
	}
	if s.measured(index) {
		span.TraceState = "tailor=m"
	}
	if result.status != 0 {
		value := &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(result.status)}}
		span.Attributes = append(span.Attributes, &common.KeyValue{Key: "http.response.status_code", Value: value})
	}
	if result.reason != "" {
		span.Attributes = append(span.Attributes, attribute("error.type", result.reason))
		span.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: result.reason}
	}
	return span
}

func attribute(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

// exportBatch returns how many spans the collector took.
func exportBatch(ctx context.Context, client *http.Client, address string, spans []*trace.Span) (int, error) {
	message := &collector.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource:   &resource.Resource{Attributes: []*common.KeyValue{attribute("service.name", "loadgen")}},
		ScopeSpans: []*trace.ScopeSpans{{Scope: &common.InstrumentationScope{Name: "tailor/loadgen"}, Spans: spans}},
	}}}
	data, err := proto.Marshal(message)
	if err != nil {
		return 0, fmt.Errorf("spans: %w", err)
	}
	for attempt := 1; ; attempt++ {
		rejected, again, err := post(ctx, client, address, data)
		if err == nil {
			return len(spans) - min(rejected, len(spans)), nil
		}
		if !again || attempt == exportAttempts || ctx.Err() != nil {
			return 0, fmt.Errorf("spans: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(attempt) * 250 * time.Millisecond):
		}
	}
}

// post says how many spans the collector rejected, or with an error whether trying again can help (OTLP: only where
// the collector did not take the batch; after a lost reply it might hold it twice, so only a refusal is repeated).
func post(ctx context.Context, client *http.Client, address string, data []byte) (rejected int, again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(data))
	if err != nil {
		return 0, false, err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	reply, err := client.Do(request)
	if err != nil {
		return 0, classify(err) == reasonRefused, err
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, 1<<20))
	_ = reply.Body.Close() // it has been read
	if err != nil {
		return 0, false, err
	}
	if reply.StatusCode != http.StatusOK {
		again := reply.StatusCode == 429 || reply.StatusCode >= 502 && reply.StatusCode <= 504
		return 0, again, fmt.Errorf("%s answers %s", address, reply.Status)
	}
	var answer collector.ExportTraceServiceResponse
	if err := proto.Unmarshal(body, &answer); err != nil {
		return 0, false, fmt.Errorf("%s: %w", address, err)
	}
	return int(answer.GetPartialSuccess().GetRejectedSpans()), false, nil
}
