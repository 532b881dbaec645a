package loadgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"golang.org/x/net/http2"
)

// Reasons for which a request fails.  Replies with a wrong status have "status <number>".
const (
	reasonInFlight    = "in-flight limit"
	reasonInterrupted = "interrupted"
	reasonTimeout     = "timeout"
	reasonRefused     = "connection refused"
	reasonReset       = "connection reset"
	reasonClosed      = "connection closed"
	reasonDial        = "connection failed"
	reasonName        = "name not resolved"
	reasonFiles       = "out of file descriptors"
	reasonPorts       = "out of local ports"
	reasonTruncated   = "truncated reply"
	reasonUnreadable  = "unreadable reply"
	reasonTooLarge    = "reply too large"
	reasonBody        = "unexpected body"
	reasonItems       = "too few items"
	reasonStream      = "stream reset"
	reasonGoAway      = "connection closed (GOAWAY)"
	reasonNotHTTP2    = "not HTTP/2"
	reasonRedirects   = "too many redirects"
	reasonElsewhere   = "redirect to another host"
	reasonLocation    = "redirect without a place"
	reasonLineBreak   = "line break in a header"
)

// reasonNotTaken: a good reply does not deliver a value.  reasonNoValue: a request needs one that its user does not have
// (yet), and is not sent.
func reasonNotTaken(name string) string { return "no " + name + " in the reply" }
func reasonNoValue(name string) string  { return "no value of " + name }

var errNotHTTP2 = errors.New("the server does not speak HTTP/2")

// reply is a complete reply; its body only where it is needed.
type reply struct {
	status  int
	header  http.Header
	trailer http.Header
	body    []byte
}

// maxBody bounds the replies that are kept to be judged.
const maxBody = 64 << 20

var errTooLarge = errors.New("reply too large")

// judge returns why a complete reply is not good, or "".
func (expect *Expect) judge(status int, body []byte) string {
	if expect.Status == 0 && (status < 200 || status > 299) || expect.Status != 0 && status != expect.Status {
		return fmt.Sprintf("status %d", status)
	}
	if expect.Body != nil && !expect.Body.Match(body) {
		return reasonBody
	}
	if expect.MinItems >= 0 {
		var items []json.RawMessage
		if json.Unmarshal(body, &items) != nil || len(items) < expect.MinItems {
			return reasonItems
		}
	}
	return ""
}

// classify names why no complete reply came.
func classify(err error) string {
	var name *net.DNSError
	var network *net.OpError
	var timed net.Error
	switch {
	case errors.As(err, &timed) && timed.Timeout():
		return reasonTimeout
	case errors.Is(err, errTooLarge):
		return reasonTooLarge
	case errors.Is(err, errNotHTTP2):
		return reasonNotHTTP2
	case errors.As(err, new(http2.StreamError)):
		return reasonStream
	case strings.Contains(err.Error(), "server sent GOAWAY"): // net/http keeps the type of this error to itself
		return reasonGoAway
	case errors.Is(err, syscall.ECONNREFUSED):
		return reasonRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return reasonReset
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return reasonFiles
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return reasonPorts
	case errors.As(err, &name):
		return reasonName
	case errors.Is(err, io.ErrUnexpectedEOF):
		return reasonTruncated
	case errors.Is(err, io.EOF):
		return reasonClosed
	case errors.As(err, &network) && network.Op == "dial":
		return reasonDial
	}
	return reasonUnreadable
}
