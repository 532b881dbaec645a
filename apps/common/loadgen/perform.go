package loadgen

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// outcome is what became of a request: why it failed, or "".
type outcome struct {
	status int
	reason string
	err    error  // that made a reason, where no complete reply came
	detail string // what else is known of a failure, for a log-in
}

// task is how a request is sent: whose it is, over which of the connections of HTTP/2, and by when it is answered.
type task struct {
	class    *Class
	user     *user
	lane     int
	carried  string // header lines with the context of its trace
	deadline time.Time
	handed   func() // called when it is given to a kept connection
}

const (
	maxRedirects = 10
	maxDetail    = 200 // bytes of a reply that are shown
)

// perform sends a request for a user: with the values and cookies that it has now, keeping those that replies deliver.
func (c *caller) perform(ctx context.Context, task *task, request *Request) outcome {
	class := task.class
	if request.draft != nil {
		completed, missing := request.draft.complete(task.user)
		if missing != "" {
			return outcome{reason: reasonNoValue(missing)}
		}
		request = &completed
		if class.grpc != nil {
			framed, err := class.grpc.encode(completed.Body)
			if err != nil {
				return outcome{reason: reasonMessage, detail: err.Error()}
			}
			request.Body = string(framed)
		}
	}
	out := newOutgoing(class, request, c.target.Host, task.carried)
	for _, header := range out.headers {
		if strings.ContainsAny(header.Value, lineBreaks) {
			return outcome{reason: reasonLineBreak, detail: header.Name}
		}
	}
	return c.follow(ctx, task, out)
}

// follow sends a request and, where its class wants that, those that its reply redirects to.
func (c *caller) follow(ctx context.Context, task *task, out *outgoing) outcome {
	class, user := task.class, task.user
	for hops := 0; ; hops++ {
		user.addCookies(out)
		got, err := c.exchange(ctx, task, out)
		if err != nil {
			return outcome{status: got.status, reason: classify(err), err: err, detail: err.Error()}
		}
		user.keepCookies(out, &got)
		if !class.follow || !redirects(got.status) {
			return concluded(class, &got, user)
		}
		place := got.header.Get("Location")
		next, reason := c.redirected(out, got.status, place)
		if reason == "" && hops == maxRedirects {
			reason = reasonRedirects
		}
		if reason != "" {
			return outcome{status: got.status, reason: reason, detail: place}
		}
		out = next
	}
}

// concluded judges a reply and takes its values.
func concluded(class *Class, got *reply, user *user) outcome {
	result := outcome{status: got.status}
	if class.grpc != nil {
		result.reason, result.detail = class.grpc.judge(got, &class.Expect)
	} else {
		result.reason = class.Expect.judge(got.status, got.body)
	}
	if result.reason == "" && len(class.take) > 0 {
		if missing := user.take(class.take, got); missing != "" {
			result.reason = reasonNotTaken(missing)
		}
	}
	if result.reason != "" && result.detail == "" {
		result.detail = string(got.body[:min(len(got.body), maxDetail)])
	}
	return result
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// redirected is the request that a reply asks for (RFC 9110, 15.4): a GET, except for what is to be sent again as it is.
// Only the target is ever called, so a place with another host and port than the request's is not followed.
func (c *caller) redirected(out *outgoing, status int, location string) (*outgoing, string) {
	if location == "" {
		return nil, reasonLocation
	}
	from, err := url.Parse(c.target.Scheme + "://" + out.host + out.path)
	if err != nil {
		return nil, reasonLocation
	}
	place, err := from.Parse(location)
	if err != nil {
		return nil, reasonLocation
	}
	if place.Scheme != from.Scheme || !strings.EqualFold(address(place), address(from)) {
		return nil, reasonElsewhere
	}
	next := *out
	next.path = place.EscapedPath()
	if next.path == "" {
		next.path = "/"
	}
	if place.RawQuery != "" {
		next.path += "?" + place.RawQuery
	}
	again := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
	if !again && out.method != http.MethodGet && out.method != http.MethodHead {
		next.method, next.body, next.content, next.headers = http.MethodGet, "", nil, nil
		for _, header := range out.headers {
			if !strings.HasPrefix(header.Name, "Content-") {
				next.headers = append(next.headers, header)
			}
		}
	}
	return &next, ""
}
