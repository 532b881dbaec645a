package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// idleTimeout is how long an unused connection stays open: that of http.DefaultTransport.
const idleTimeout = 90 * time.Second

// maxReplyBytes bounds a reply that is read into memory.
const maxReplyBytes = 64 << 20

// Client calls one downstream service over HTTP/1.1, each call inside a client span and the caller's deadline.
type Client struct {
	peer       string
	base       string
	http       *http.Client
	tracing    *Tracing
	attributes trace.SpanStartEventOption
}

// Client makes the client of the downstream service peer, which listens on port 8080 of the host of that name. The
// connections in use are bounded by the callers, that is by WORKERS; those kept when idle by IDLE_CONNECTIONS.
func (s *Service) Client(peer string) (*Client, error) {
	return s.ClientAt(peer, "http://"+peer+APIAddress)
}

// ClientAt is Client for a service at another address, such as a test's.
func (s *Service) ClientAt(peer, base string) (*Client, error) {
	idle, err := s.parameters.Integer(IdleConnections, DefaultIdleConnections)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		MaxIdleConnsPerHost: idle,
		IdleConnTimeout:     idleTimeout,
		// Replies come from the next container: compressing them would cost more CPU than it saves.
		DisableCompression: true,
	}
	s.parameters.Watch(IdleConnections, func() int64 { return int64(transport.MaxIdleConnsPerHost) })
	s.OnClose(transport.CloseIdleConnections)
	return &Client{
		peer: peer, base: base, http: &http.Client{Transport: transport}, tracing: s.tracing,
		attributes: trace.WithAttributes(attribute.String("peer.service", peer), attribute.String("server.address", peer)),
	}, nil
}

var clientKind = trace.WithSpanKind(trace.SpanKindClient)

// Get fetches path with a query and returns the body.
func (c *Client) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return c.call(ctx, http.MethodGet, path, query.Encode(), nil)
}

// GetJSON fetches path with a query into reply.
func (c *Client) GetJSON(ctx context.Context, path string, query url.Values, reply any) error {
	body, err := c.Get(ctx, path, query)
	if err != nil {
		return err
	}
	return c.decode(path, body, reply)
}

// Post sends body, which is JSON, and returns the reply's body.
func (c *Client) Post(ctx context.Context, path string, body []byte) ([]byte, error) {
	return c.call(ctx, http.MethodPost, path, "", body)
}

// PostJSON sends request as JSON and reads the reply into reply unless that is nil.
func (c *Client) PostJSON(ctx context.Context, path string, request, reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("request to %s%s: %w", c.peer, path, err)
	}
	answer, err := c.Post(ctx, path, body)
	if err != nil || reply == nil {
		return err
	}
	return c.decode(path, answer, reply)
}

func (c *Client) decode(path string, body []byte, reply any) error {
	if err := json.Unmarshal(body, reply); err != nil {
		return fmt.Errorf("reply of %s%s: %w", c.peer, path, err)
	}
	return nil
}

func (c *Client) call(ctx context.Context, method, path, query string, body []byte) ([]byte, error) {
	ctx, span := c.tracing.tracer.Start(ctx, method+" "+path, clientKind, c.attributes)
	defer span.End()
	reply, err := c.exchange(ctx, method, path, query, body)
	if err != nil {
		err = fmt.Errorf("%s: %w", c.peer, err)
		if span.IsRecording() {
			span.SetStatus(codes.Error, err.Error())
		}
	}
	return reply, err
}

func (c *Client) exchange(ctx context.Context, method, path, query string, body []byte) ([]byte, error) {
	address := c.base + path
	if query != "" {
		address += "?" + query
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, address, reader)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if body != nil {
		request.Header["Content-Type"] = []string{"application/json"}
	}
	propagator.Inject(ctx, propagation.HeaderCarrier(request.Header))
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	reply, err := readReply(response)
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// readReply reads the whole body, so that the connection can be used again, and turns a status that is not a success
// into an error: the caller's own mistakes (4xx) keep their status on the way up, everything else is a bad gateway.
func readReply(response *http.Response) ([]byte, error) {
	var buffer bytes.Buffer
	if response.ContentLength > 0 && response.ContentLength <= maxReplyBytes {
		buffer.Grow(int(response.ContentLength) + bytes.MinRead)
	}
	if _, err := buffer.ReadFrom(io.LimitReader(response.Body, maxReplyBytes+1)); err != nil {
		return nil, fmt.Errorf("reply: %w", err)
	}
	if buffer.Len() > maxReplyBytes {
		return nil, fmt.Errorf("reply of more than %d bytes", maxReplyBytes)
	}
	status := response.StatusCode
	switch {
	case status < http.StatusBadRequest:
		return buffer.Bytes(), nil
	case status < http.StatusInternalServerError:
		return nil, &StatusError{status, string(bytes.TrimSpace(buffer.Bytes()))}
	default:
		return nil, fmt.Errorf("status %d: %s", status, bytes.TrimSpace(buffer.Bytes()))
	}
}
