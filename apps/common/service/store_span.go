package service

import (
	"context"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// storeSpans makes the client spans of one cache or database. Such a server sends no spans of its own, so
// peer.service is what its time is charged to.
type storeSpans struct {
	tracing *Tracing
	system  string
	peer    string
	options sync.Map // operation -> []trace.SpanStartOption, made once: attributes are the dear part of a span
}

// start begins the span of an operation such as "SELECT posts" or "get": its first word is db.operation.name.
func (s *storeSpans) start(ctx context.Context, operation string) (context.Context, trace.Span) {
	found, isKnown := s.options.Load(operation)
	if !isKnown {
		verb, _, _ := strings.Cut(operation, " ")
		found, _ = s.options.LoadOrStore(operation, []trace.SpanStartOption{clientKind, trace.WithAttributes(
			attribute.String("db.system.name", s.system),
			attribute.String("db.operation.name", verb),
			attribute.String("server.address", s.peer),
			attribute.String("peer.service", s.peer),
		)})
	}
	return s.tracing.tracer.Start(ctx, operation, found.([]trace.SpanStartOption)...)
}

// end closes a span with the operation's outcome.
func (s *storeSpans) end(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
