package service

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Sizes of the export: at 1,000 requests/s with some 15 spans in the busiest service the queue holds a second of
// spans, so that nothing is dropped while the exporter waits for Jaeger; the SDK's own 2,048 would not.
const (
	spanQueueSize = 16384
	spanBatchSize = 512
	spanDelay     = 500 * time.Millisecond
)

// phaseKey is the member of tracestate by which the load generator marks its requests: warm-up or measured window.
const phaseKey = "tailor"

// SpanCounts is what GET /spans serves: spans of sampled traces, by phase, since the process started. Created counts
// when a span starts; what is created and neither exported nor failed is under way, queued or dropped.
type SpanCounts struct {
	Created  PhaseCounts `json:"created"`
	Exported PhaseCounts `json:"exported"`
	Failed   int64       `json:"failed"`
}

// PhaseCounts counts by phase: w is warm-up, m is the measured window. Spans without a mark are in neither.
type PhaseCounts struct {
	WarmUp   int64 `json:"w"`
	Measured int64 `json:"m"`
}

type phaseCounter struct{ warmUp, measured atomic.Int64 }

func (c *phaseCounter) add(span trace.SpanContext) {
	switch span.TraceState().Get(phaseKey) {
	case "w":
		c.warmUp.Add(1)
	case "m":
		c.measured.Add(1)
	}
}

func (c *phaseCounter) read() PhaseCounts { return PhaseCounts{c.warmUp.Load(), c.measured.Load()} }

// Tracing makes spans, exports them and counts both ends.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	created  phaseCounter
	exported phaseCounter
	failed   atomic.Int64
}

// NewTracing exports by OTLP over HTTP to where OTEL_EXPORTER_OTLP_ENDPOINT says (the exporter reads it itself).
// Sampling follows the caller. A request that brings no trace starts one only when startsTraces.
func NewTracing(ctx context.Context, service string, startsTraces bool) (*Tracing, error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("OTLP exporter: %w", err)
	}
	return newTracing(service, startsTraces, exporter), nil
}

func newTracing(service string, startsTraces bool, exporter sdktrace.SpanExporter) *Tracing {
	t := &Tracing{}
	root := sdktrace.NeverSample()
	if startsTraces {
		root = sdktrace.AlwaysSample()
	}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(root)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))),
		sdktrace.WithSpanProcessor(&countingProcessor{
			SpanProcessor: sdktrace.NewBatchSpanProcessor(
				&countingExporter{exporter, t},
				sdktrace.WithMaxQueueSize(spanQueueSize),
				sdktrace.WithMaxExportBatchSize(spanBatchSize),
				sdktrace.WithBatchTimeout(spanDelay),
			),
			created: &t.created,
		}),
	)
	t.tracer = t.provider.Tracer("tailor/apps/common/service")
	return t
}

// Span exports a span of its own trace, of something that has happened: for servers that speak no HTTP. Nothing comes
// of it where the service starts no traces.
func (s *Service) Span(name string, start, end time.Time, attributes ...attribute.KeyValue) {
	_, span := s.tracing.tracer.Start(context.Background(), name, trace.WithTimestamp(start),
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(end))
}

// Counts is the state of the counters now.
func (t *Tracing) Counts() SpanCounts {
	// Exported first: a span that ends between the two reads must not look exported without having been created.
	exported, failed := t.exported.read(), t.failed.Load()
	return SpanCounts{Created: t.created.read(), Exported: exported, Failed: failed}
}

// Flush exports what is queued.
func (t *Tracing) Flush(ctx context.Context) error { return t.provider.ForceFlush(ctx) }

// Shutdown exports what is queued and stops.
func (t *Tracing) Shutdown(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// countingProcessor counts each recorded span as it starts: the SDK shows a processor only spans of sampled traces.
type countingProcessor struct {
	sdktrace.SpanProcessor
	created *phaseCounter
}

func (p *countingProcessor) OnStart(_ context.Context, span sdktrace.ReadWriteSpan) {
	p.created.add(span.SpanContext())
}

// countingExporter counts the spans that the collector has accepted, and those that it has not.
type countingExporter struct {
	sdktrace.SpanExporter
	tracing *Tracing
}

func (e *countingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.tracing.failed.Add(int64(len(spans)))
		return fmt.Errorf("export of %d spans: %w", len(spans), err)
	}
	for _, span := range spans {
		e.tracing.exported.add(span.SpanContext())
	}
	return nil
}
