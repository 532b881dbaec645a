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
	expected := plan.expected()
	requests := make([]Request, 0, int(expected+4*math.Sqrt(expected))+16)
	series := newSeries(plan, workload)
	for request, more := series.next(); more; request, more = series.next() {
		requests = append(requests, request)
	}
	return requests
}

// series is a schedule that is made request by request.
type series struct {
	plan     *Plan
	workload *Workload
	arrivals *arrivals
	contents *rand.Rand
	userOf   func(index int) int
	made     int
}

func newSeries(plan *Plan, workload *Workload) *series {
	return &series{
		plan: plan, workload: workload, arrivals: newArrivals(plan), userOf: workload.assignment(plan.Seed),
		contents: rand.New(rand.NewPCG(plan.Seed, streamContents)),
	}
}

// next makes the next request; false when none is due any more before the run's end.
func (s *series) next() (Request, bool) {
	due, more := s.arrivals.next()
	if !more {
		return Request{}, false
	}
	class, user := s.workload.draw(s.contents), s.userOf(s.made)
	scope := &scope{random: s.contents, sequence: s.made, user: user, values: map[string]string{}}
	request := s.workload.Classes[class].build(s.plan.target.EscapedPath(), scope)
	request.Due, request.Class, request.user = due, uint8(class), int32(user)
	s.made++
	return request, true
}

// arrivals of a Poisson process or of an even one, whose first request is due at 0.
//
// With a profile the process is one of rate 1 on the axis of expected requests, carried over to time by the inverse of
// the cumulative rate (the time-rescaling theorem; Lewis and Shedler, 1979, call it inversion).
type arrivals struct {
	poisson bool
	rate    float64
	rates   *rates // instead of the rate, with a profile
	length  time.Duration
	random  *rand.Rand
	at      float64 // seconds; with a profile, expected requests
	index   int
}

func newArrivals(plan *Plan) *arrivals {
	return &arrivals{
		poisson: plan.Arrivals == "poisson", rate: plan.RateRPS, rates: plan.rates(),
		length: plan.Warmup() + plan.Window(), random: rand.New(rand.NewPCG(plan.Seed, streamArrivals)),
	}
}

// next is when the next request is due; false when that is not before the run's end.
func (a *arrivals) next() (time.Duration, bool) {
	rate := a.rate
	if a.rates != nil {
		rate = 1
	}
	if a.poisson {
		a.at += a.random.ExpFloat64() / rate
	} else {
		a.at = float64(a.index) / rate
	}
	a.index++
	at := a.at
	if a.rates != nil {
		at = a.rates.when(a.at)
	}
	if at > a.length.Seconds()+1 { // an infinite one has no duration
		return 0, false
	}
	due := time.Duration(math.Round(at * 1e9))
	return due, due < a.length
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
