package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// MaxBodyBytes bounds a request's body, nginx's client_max_body_size by default.
const MaxBodyBytes = 1 << 20

// Handler answers one request. It returns before it writes anything, or writes the whole reply and returns nil; an
// error becomes its status: that of a StatusError, else 504 for a passed deadline, else 502 for a failed downstream.
type Handler func(w http.ResponseWriter, r *http.Request) error

// StatusError is an answer that is not a success, with a text for the caller.
type StatusError struct {
	Status int
	Text   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Text) }

// BadRequest is the caller's mistake.
func BadRequest(format string, arguments ...any) error {
	return &StatusError{http.StatusBadRequest, fmt.Sprintf(format, arguments...)}
}

// NotFound is a request for what does not exist.
func NotFound(format string, arguments ...any) error {
	return &StatusError{http.StatusNotFound, fmt.Sprintf(format, arguments...)}
}

var propagator = propagation.TraceContext{}

// Handle serves a pattern of http.ServeMux ("GET /path") with a worker of the pool, inside a server span and a
// deadline; the wait for a worker is inside both.
func (s *Service) Handle(pattern string, handler Handler) {
	method, route, _ := strings.Cut(pattern, " ")
	started := trace.WithAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route))
	kind := trace.WithSpanKind(trace.SpanKindServer)
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.timeout)
		defer cancel()
		ctx = propagator.Extract(ctx, propagation.HeaderCarrier(r.Header))
		ctx, span := s.tracing.tracer.Start(ctx, pattern, kind, started)
		defer span.End()
		if err := s.workers.enter(ctx); err != nil {
			s.refuse(w, r, span, &StatusError{http.StatusServiceUnavailable, "no worker was free before the deadline"})
			return
		}
		defer s.workers.leave()
		r.Body = http.MaxBytesReader(w, r.Body, MaxBodyBytes)
		if err := handler(w, r.WithContext(ctx)); err != nil {
			s.refuse(w, r, span, err)
		}
	})
}

func (s *Service) refuse(w http.ResponseWriter, r *http.Request, span trace.Span, err error) {
	status := statusOf(err)
	if span.IsRecording() {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, err.Error())
		}
	}
	if status >= http.StatusInternalServerError && r.Context().Err() == nil {
		slog.Error("request failed", "role", s.Name, "route", r.Pattern, "status", status, "error", err)
	}
	http.Error(w, textOf(err), status)
}

// textOf is what the caller is told: an answer's own text, or the whole chain of a failure.
func textOf(err error) string {
	var answer *StatusError
	if errors.As(err, &answer) {
		return answer.Text
	}
	return err.Error()
}

func statusOf(err error) int {
	var answer *StatusError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &answer):
		return answer.Status
	case errors.Is(err, ErrConflict):
		return http.StatusConflict
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusGatewayTimeout
	default:
		return http.StatusBadGateway
	}
}

// ReadJSON reads a request's body into target.
func ReadJSON(r *http.Request, target any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	if err := json.Unmarshal(body, target); err != nil {
		return BadRequest("request body: %v", err)
	}
	return nil
}

// WriteJSON sends value as the whole reply.
func WriteJSON(w http.ResponseWriter, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return &StatusError{http.StatusInternalServerError, err.Error()}
	}
	return WriteBody(w, "application/json", body)
}

// WriteBody sends body as the whole reply. A caller that has gone away is no failure of the service.
func WriteBody(w http.ResponseWriter, contentType string, body []byte) error {
	w.Header()["Content-Type"] = []string{contentType}
	// net/http would send a long body in chunks, and its reader could not know how much room it needs.
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	_, _ = w.Write(body)
	return nil
}

// WriteList sends a JSON list of values that are JSON already.
func WriteList(w http.ResponseWriter, values [][]byte) error {
	list := bytes.Join([][]byte{{'['}, bytes.Join(values, []byte{','}), {']'}}, nil)
	return WriteBody(w, "application/json", list)
}

// IntegerOf reads a whole number from a request's query or form.
func IntegerOf(values url.Values, name string) (int64, error) {
	number, err := strconv.ParseInt(values.Get(name), 10, 64)
	if err != nil {
		return 0, BadRequest("%s=%q: a whole number is needed", name, values.Get(name))
	}
	return number, nil
}
