package loadgen

import (
	"net/url"
	"testing"
)

// The bytes of a plain request, as they were before there were users and other protocols.
func TestPlainRequestsAreTheBytesThatTheyWere(t *testing.T) {
	document := `{"kind": "workload", "version": 1, "timeout_ms": 1000, "requests": [
	 {"name": "a", "weight": 1, "method": "PUT", "path": "/a b/{seq}", "query": {"q": "x&y"}, "body": "{{}}",
	  "headers": {"host": "other", "x-number": "{seq}", "accept": "*/*"}}]}`
	plan, workload := makePlan(t, document, func(plan *Plan) { plan.Arrivals, plan.Target = "constant", "http://service:8080/base" })
	s := newSender(plan, workload)
	s.traces[0] = traceID{trace: [16]byte{1}, span: [8]byte{2}}
	for index, want := range map[int]string{
		0: "PUT /base/a%20b/0?q=x%26y HTTP/1.1\r\nHost: other\r\nUser-Agent: tailor-loadgen\r\n" +
			"Traceparent: 00-01000000000000000000000000000000-0200000000000000-00\r\nTracestate: tailor=w\r\n" +
			"Accept: */*\r\nX-Number: 0\r\nContent-Length: 2\r\n\r\n{}",
	} {
		request := Schedule(plan, workload)[index]
		out := newOutgoing(workload.Classes[0], &request, plan.target.Host, s.carried(&request, &s.traces[index]))
		if wire := string(out.wire()); wire != want {
			t.Errorf("found %q, wanted %q", wire, want)
		}
	}
	if !workload.Classes[0].plain || len(s.wires[0]) == 0 || s.requests[0].Body != "" {
		t.Error("a plain request is not sent as one")
	}
}

func TestARequestOfTheUsersOwnAgentHasOne(t *testing.T) {
	out := &outgoing{method: "GET", path: "/", host: "a", headers: []Header{{"User-Agent", "mine"}}}
	if wire := string(out.wire()); wire != "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: mine\r\n\r\n" {
		t.Errorf("%q", wire)
	}
}

func TestPortsOfTargets(t *testing.T) {
	for target, want := range map[string]string{
		"http://a": "a:80", "https://a": "a:443", "https://a:8443": "a:8443", "http://[::1]:8080": "[::1]:8080",
	} {
		parsed, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		if found := address(parsed); found != want {
			t.Errorf("%s: %s, wanted %s", target, found, want)
		}
	}
}
