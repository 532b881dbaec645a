// Package loadgen is an open-loop load generator: every request is sent when it is due, whatever became of the ones
// before it, and its latency counts from that moment.
//
// A closed loop (or a generator that waits for a free connection) sends less just when the service is slow and so
// hides the very latencies that a tuner must see ("coordinated omission").  Here the whole schedule, with every
// request's bytes, is derived from a seed before the first request is sent; sending cannot change it.
//
// Connections are kept alive and pooled without a limit but that of the requests in flight: the generator is not what
// is being tuned, and it must not add connection set-up or queueing of its own to what it reports.
package loadgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Plan is one run: a warm-up and a window without a gap.  Rates are in requests per second, times in seconds.
type Plan struct {
	Workload     json.RawMessage `json:"workload"`
	RateRPS      float64         `json:"rate_rps"`
	Arrivals     string          `json:"arrivals"` // "poisson" or "constant"
	WarmupS      float64         `json:"warmup_s"`
	WindowS      float64         `json:"window_s"`
	Seed         uint64          `json:"seed"`
	Target       string          `json:"target"`        // http(s)://host[:port][/path before every request's]
	OTLPEndpoint string          `json:"otlp_endpoint"` // http://host:4318; needed when Trace exports
	Trace        bool            `json:"trace"`
	Propagation  []string        `json:"propagation"` // formats of the trace's context; none: w3c
	Roots        string          `json:"roots"`       // what becomes of root spans: "export" (or empty), "report" their ids
	Profile      []Point         `json:"profile"`     // the rate over time, instead of RateRPS, which then is 0
	LiveMS       int             `json:"live_ms"`     // an event "window" as often as this; 0: none
	Forget       bool            `json:"forget"`      // requests are made and forgotten one by one: the result has no columns

	Files  map[string][]byte `json:"files"` // that the workload names; base64
	target *url.URL
}

// maxRequests bounds the memory of a schedule (about 1.5 kB for each request).  A run that forgets holds only those that
// are soon due or in flight; its bound keeps a mistyped rate from being taken for a plan.
const (
	maxRequests  = 5_000_000
	maxForgotten = 1_000_000_000
)

const maxLiveMS = 60_000

// ReadPlan decodes and checks a plan; a key that is not known is an error, so that a typing error cannot be ignored.
func ReadPlan(reader io.Reader) (*Plan, error) {
	data, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	var plan Plan
	if err := decodeStrictly(data, &plan); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if err := plan.check(); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return &plan, nil
}

func (plan *Plan) check() error {
	if plan.Arrivals != "poisson" && plan.Arrivals != "constant" {
		return fmt.Errorf("arrivals: found %q; allowed: poisson, constant", plan.Arrivals)
	}
	if !(plan.WarmupS >= 0) || math.IsInf(plan.WarmupS, 0) {
		return fmt.Errorf("warmup_s: found %v; allowed: 0 or more", plan.WarmupS)
	}
	if !(plan.WindowS > 0) || math.IsInf(plan.WindowS, 0) {
		return fmt.Errorf("window_s: found %v; allowed: a number above 0", plan.WindowS)
	}
	if err := plan.checkRate(); err != nil {
		return err
	}
	if plan.LiveMS < 0 || plan.LiveMS > maxLiveMS {
		return fmt.Errorf("live_ms: found %d; allowed: 0 to %d", plan.LiveMS, maxLiveMS)
	}
	if plan.Forget && plan.Trace {
		return fmt.Errorf("forget: found true with trace; allowed: false, root spans are made when all replies are there")
	}
	for _, name := range plan.Propagation {
		if _, known := propagators[name]; !known {
			return fmt.Errorf("propagation: found %q; allowed: w3c, b3, b3-multi, jaeger", name)
		}
	}
	if plan.Roots != "" && plan.Roots != "export" && plan.Roots != "report" {
		return fmt.Errorf("roots: found %q; allowed: export, report", plan.Roots)
	}
	var err error
	if plan.target, err = checkURL("target", plan.Target, "http", "https"); err == nil && plan.exports() {
		_, err = checkURL("otlp_endpoint", plan.OTLPEndpoint, "http")
	}
	return err
}

// checkRate checks the rate or the profile, whose mean is not said a second time by rate_rps, and how much they ask for.
func (plan *Plan) checkRate() error {
	if err := checkProfile(plan.Profile); err != nil {
		return err
	}
	if len(plan.Profile) > 0 && plan.RateRPS != 0 {
		return fmt.Errorf("rate_rps: found %v with a profile; allowed: 0", plan.RateRPS)
	}
	if len(plan.Profile) == 0 && (!(plan.RateRPS > 0) || math.IsInf(plan.RateRPS, 0)) {
		return fmt.Errorf("rate_rps: found %v; allowed: a number above 0", plan.RateRPS)
	}
	most, expected := maxRequests, plan.expected()
	if plan.Forget {
		most = maxForgotten
	}
	if !(expected > 0) {
		return fmt.Errorf("profile: found no request in the whole run; allowed: a rate above 0 at some moment")
	}
	if expected > float64(most) {
		return fmt.Errorf("about %.0f requests; allowed: at most %d", expected, most)
	}
	return nil
}

// rates is the profile over the whole run; nil where the rate is constant.
func (plan *Plan) rates() *rates {
	if len(plan.Profile) == 0 {
		return nil
	}
	return newRates(plan.Profile, plan.WarmupS, plan.WindowS)
}

// expected is how many requests the run is expected to have.
func (plan *Plan) expected() float64 {
	if rates := plan.rates(); rates != nil {
		return rates.total
	}
	return plan.RateRPS * (plan.WarmupS + plan.WindowS)
}

// exports says whether root spans go to a collector, reports whether their ids are part of the result instead: a store
// that takes no OTLP is then read by these ids.
func (plan *Plan) exports() bool { return plan.Trace && plan.Roots != "report" }
func (plan *Plan) reports() bool { return plan.Trace && plan.Roots == "report" }

// ReadWorkload checks and compiles the plan's workload.
func (plan *Plan) ReadWorkload() (*Workload, error) {
	workload, err := ReadWorkload(plan.Workload, plan.Files)
	if err != nil {
		return nil, err
	}
	for protocol, scheme := range map[string]string{protocolH2: "https", protocolH2C: "http"} {
		if workload.protocol == protocol && plan.target.Scheme != scheme {
			return nil, fmt.Errorf("workload: protocol: found %s with the target %s; allowed: a target of %s://", protocol, plan.Target, scheme)
		}
	}
	return workload, nil
}

// Warmup and Window are the plan's lengths as durations.
func (plan *Plan) Warmup() time.Duration { return seconds(plan.WarmupS) }
func (plan *Plan) Window() time.Duration { return seconds(plan.WindowS) }

func seconds(value float64) time.Duration { return time.Duration(math.Round(value * 1e9)) }

// checkURL accepts an address of one of these schemes, without user, query and fragment.
func checkURL(key, text string, schemes ...string) (*url.URL, error) {
	parsed, err := url.Parse(text)
	if err != nil || !slices.Contains(schemes, parsed.Scheme) || parsed.Hostname() == "" || parsed.User != nil {
		return nil, fmt.Errorf("%s: found %q; allowed: %s://host:port", key, text, strings.Join(schemes, " or "))
	}
	if parsed.RawQuery != "" || parsed.Fragment != "" || strings.HasSuffix(parsed.Path, "/") {
		return nil, fmt.Errorf("%s: found %q; allowed: no query, no fragment, no slash at the end", key, text)
	}
	return parsed, nil
}

// decodeStrictly decodes one JSON value and refuses unknown keys and anything that follows the value.
func decodeStrictly(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("something follows the JSON value")
	}
	return nil
}
