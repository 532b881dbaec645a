package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
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
)

// maxBody bounds the replies that are kept to be judged.
const maxBody = 64 << 20

var errTooLarge = errors.New("reply too large")

// readBody reads a reply to its end, so that a truncated one shows and the connection can be used again.  The body
// is returned only if it is needed to judge the reply.
func readBody(reply *http.Response, keep bool) ([]byte, error) {
	if !keep {
		_, err := io.Copy(io.Discard, reply.Body)
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errTooLarge
	}
	return body, err
}

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
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return reasonTimeout
	case errors.Is(err, context.Canceled):
		return reasonInterrupted
	case errors.Is(err, errTooLarge):
		return reasonTooLarge
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
	// net/http does not export this error of a connection that the server closed while it was idle.
	case errors.Is(err, io.EOF), strings.Contains(err.Error(), "server closed idle connection"):
		return reasonClosed
	case errors.As(err, &network) && network.Op == "dial":
		return reasonDial
	}
	return reasonUnreadable
}
