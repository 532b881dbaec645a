package loadgen

import (
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Request is one scheduled request, complete before anything is sent but for the values that replies deliver.
type Request struct {
	Due     time.Duration // from the start of the warm-up
	Class   uint8
	Path    string // with the query, as it stands in the request line
	Body    string
	Headers []Header
	user    int32
	draft   *draft // instead of path, body and headers, where values of replies are needed
}

// Header is one header line.
type Header struct{ Name, Value string }

var formType = Header{"Content-Type", "application/x-www-form-urlencoded"}

// Numbers of the random streams.  Arrivals, contents and users have their own, so that the n-th request asks for the
// same thing at any rate and with any arrival process.
const (
	streamArrivals = 1
	streamContents = 2
	streamUsers    = 3
	streamLogin    = 4 // and, times 2^8, the user's number
)

// Schedule derives all arrivals in [0, warm-up + window) and all requests from the plan's seed.
func Schedule(plan *Plan, workload *Workload) []Request {
	dues := arrivals(plan)
	random := rand.New(rand.NewPCG(plan.Seed, streamContents))
	requests, userOf := make([]Request, len(dues)), workload.assignment(plan.Seed)
	for index, due := range dues {
		class, user := workload.draw(random), userOf(index)
		scope := &scope{random: random, sequence: index, user: user, values: map[string]string{}}
		requests[index] = workload.Classes[class].build(plan.target.EscapedPath(), scope)
		requests[index].Due, requests[index].Class, requests[index].user = due, uint8(class), int32(user)
	}
	return requests
}

// arrivals of a Poisson process (exponential gaps) or of a constant one, whose first request is due at 0.
func arrivals(plan *Plan) []time.Duration {
	random := rand.New(rand.NewPCG(plan.Seed, streamArrivals))
	length := (plan.Warmup() + plan.Window()).Seconds()
	dues := make([]time.Duration, 0, int(length*plan.RateRPS*1.1)+16)
	at := 0.0
	for index := 0; ; index++ {
		if plan.Arrivals == "poisson" {
			at += random.ExpFloat64() / plan.RateRPS
		} else {
			at = float64(index) / plan.RateRPS
		}
		due := time.Duration(math.Round(at * 1e9))
		if due >= plan.Warmup()+plan.Window() {
			return dues
		}
		dues = append(dues, due)
	}
}

func (class *Class) build(prefix string, scope *scope) Request {
	if class.grpc != nil {
		prefix = "" // a call's path is its method
	}
	if class.late {
		return Request{draft: class.draft(prefix, scope)}
	}
	request := Request{Path: prefix + (&url.URL{Path: class.path.text(scope)}).EscapedPath()}
	if len(class.query) > 0 {
		request.Path += "?" + encode(class.query, scope)
	}
	switch {
	case class.grpc != nil:
		request.Body = class.grpc.text(scope)
	case class.form != nil:
		request.Body = encode(class.form, scope)
		request.Headers = append(request.Headers, formType)
	case class.body != nil:
		request.Body = class.body.text(scope)
	}
	for _, header := range class.headers {
		name := http.CanonicalHeaderKey(header.name)
		request.Headers = append(request.Headers, Header{name, header.value.text(scope)})
	}
	return request
}

func encode(fields []field, scope *scope) string {
	var out strings.Builder
	for index, field := range fields {
		if index > 0 {
			out.WriteByte('&')
		}
		out.WriteString(url.QueryEscape(field.name))
		out.WriteByte('=')
		out.WriteString(url.QueryEscape(field.value.text(scope)))
	}
	return out.String()
}
