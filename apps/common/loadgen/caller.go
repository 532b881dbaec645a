package loadgen

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// caller sends requests to the target in the workload's protocol: those of the mix, and those of a log-in.
type caller struct {
	target  *url.URL
	pool    *connections      // HTTP/1.1
	streams []*http.Transport // HTTP/2, each with a connection of its own; none where nothing needs them
	http2   bool              // also for requests that are not gRPC
}

func newCaller(target *url.URL, workload *Workload) *caller {
	c := &caller{target: target, pool: newConnections(address(target), secured(target)), http2: workload.http2()}
	for range workload.connections {
		c.streams = append(c.streams, newStreams(target))
	}
	return c
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

// stop ends every exchange over HTTP/1.1; those over HTTP/2 end with their context.
func (c *caller) stop() {
	c.pool.stop()
	for _, streams := range c.streams {
		streams.CloseIdleConnections()
	}
}

// outgoing is a request that is ready to be sent, in whatever protocol.
type outgoing struct {
	method  string
	path    string // with the query, as it stands in the request line
	host    string
	headers []Header
	carried string // header lines with the context of its trace
	cookies string
	body    string
	content []byte // instead of the body: of a file
}

func newOutgoing(class *Class, request *Request, host, carried string) *outgoing {
	out := &outgoing{
		method: class.Method, path: request.Path, host: host, carried: carried, body: request.Body, content: class.content,
	}
	for _, header := range request.Headers {
		if header.Name == "Host" {
			out.host = header.Value
			continue
		}
		out.headers = append(out.headers, header)
	}
	return out
}

// length of the body, -1 for a request that has none.
func (out *outgoing) length() int {
	size := len(out.body) + len(out.content)
	if size == 0 && out.method != http.MethodPost && out.method != http.MethodPut && out.method != http.MethodPatch {
		return -1
	}
	return size
}

// wire is the request as it goes over a connection of HTTP/1.1, without the content of a file.
func (out *outgoing) wire() []byte {
	var lines strings.Builder
	agent := "User-Agent: tailor-loadgen\r\n"
	for _, header := range out.headers {
		if header.Name == "User-Agent" {
			agent = ""
		}
		fmt.Fprintf(&lines, "%s: %s\r\n", header.Name, header.Value)
	}
	if out.cookies != "" {
		fmt.Fprintf(&lines, "Cookie: %s\r\n", out.cookies)
	}
	if size := out.length(); size >= 0 {
		fmt.Fprintf(&lines, "Content-Length: %d\r\n", size)
	}
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n%s",
		out.method, out.path, out.host, agent, out.carried, lines.String(), out.body)
}

// exchange sends a request over the protocol that its class needs.
func (c *caller) exchange(ctx context.Context, task *task, out *outgoing) (reply, error) {
	keepBody := task.class.needsBody()
	if c.http2 || task.class.grpc != nil {
		return c.overStreams(ctx, out, task.lane, task.deadline, keepBody)
	}
	sent := &wire{method: out.method, text: out.wire(), content: out.content, keepBody: keepBody}
	return c.pool.exchange(ctx, sent, task.deadline, task.handed)
}

// newStreams is a client of HTTP/2 that has one connection, and more only where the server limits the streams of one: a
// request never waits for another.
func newStreams(target *url.URL) *http.Transport {
	streams := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	if secure := secured(target); secure != nil {
		secure.NextProtos = nil // the transport offers h2 only
		streams.TLSClientConfig = secure
		streams.Protocols.SetHTTP2(true)
	} else {
		streams.Protocols.SetUnencryptedHTTP2(true)
	}
	return streams
}

func (c *caller) overStreams(
	ctx context.Context, out *outgoing, lane int, deadline time.Time, keepBody bool,
) (reply, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	place := c.target.Scheme + "://" + c.target.Host + out.path
	request, err := http.NewRequestWithContext(ctx, out.method, place, bytes.NewReader(out.bytes()))
	if err != nil {
		return reply{}, err
	}
	if out.length() < 0 {
		request.Body, request.GetBody, request.ContentLength = nil, nil, 0
	}
	request.Host = out.host
	request.Header.Set("User-Agent", "tailor-loadgen")
	for line := range strings.Lines(out.carried) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), ": ")
		request.Header.Set(name, value)
	}
	for _, header := range out.headers {
		request.Header.Set(header.Name, header.Value)
	}
	if out.cookies != "" {
		request.Header.Set("Cookie", out.cookies)
	}
	answer, err := c.streams[lane%len(c.streams)].RoundTrip(request)
	if err != nil && strings.Contains(err.Error(), "no application protocol") { // a TLS alert, whose type is not exported
		return reply{}, errNotHTTP2
	}
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	if answer.ProtoMajor != 2 {
		return reply{}, errNotHTTP2
	}
	got := reply{status: answer.StatusCode, header: answer.Header}
	got.body, err = readBody(answer, keepBody)
	got.trailer = answer.Trailer // complete only now
	return got, err
}

func (out *outgoing) bytes() []byte {
	if out.content != nil {
		return out.content
	}
	return []byte(out.body)
}
