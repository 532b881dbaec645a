package loadgen

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"math"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is the last event: every request, and what can be said about the window at a glance.
//
// Columns is base64(zlib(due_ns[n] sent_ns[n] end_ns[n] class[n] status[n] ok[n])): little-endian int64, int64, int64,
// uint8, int16, uint8; times in nanoseconds since the Unix epoch, in the order of the schedule.  After a run that forgets
// there are none, and requests counts those that ended.
type Result struct {
	Event         string                    `json:"event"`
	Version       int                       `json:"version"`
	StartedNS     int64                     `json:"started_ns"`
	WarmupS       float64                   `json:"warmup_s"`
	WindowS       float64                   `json:"window_s"`
	Classes       []string                  `json:"classes"`
	Requests      int                       `json:"requests"`
	Columns       string                    `json:"columns,omitempty"` // absent after a run that forgets
	Errors        map[string]map[string]int `json:"errors"`            // in the window: reason -> class -> count
	WarmupErrors  map[string]map[string]int `json:"warmup_errors"`     // the same of the warm-up
	SpansCreated  int                       `json:"spans_created"`     // root spans of the window
	SpansExported int                       `json:"spans_exported"`
	SpansProblem  string                    `json:"spans_problem"`
	CPUS          float64                   `json:"cpu_s"` // the generator's own, in the window
	Latency       Summary                   `json:"latency_ms"`
	Lag           Summary                   `json:"lag_ms"`
	Yardstick     *Yardstick                `json:"yardstick,omitempty"` // absent where the window was too short for one
	IDs           string                    `json:"ids,omitempty"`       // of the root spans, where the plan says report
	Interrupted   bool                      `json:"interrupted"`
}

// Summary of the window in ms, from an HDR histogram with three significant digits.  A failed request counts as
// infinite latency; a quantile that falls among the failed is null.
type Summary struct {
	Count     int                 `json:"count"`
	Failed    int                 `json:"failed"`
	Mean      *float64            `json:"mean"` // of those that did not fail
	Quantiles map[string]*float64 `json:"quantiles"`
}

var quantiles = map[string]float64{"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "max": 1}

const longest = int64(time.Hour / time.Microsecond)

// times is a histogram of durations, in microseconds.
type times struct{ histogram *hdrhistogram.Histogram }

func newTimes() times { return times{hdrhistogram.New(1, longest, 3)} }

func (t times) add(value time.Duration) {
	if err := t.histogram.RecordValue(min(max(value.Microseconds(), 0), longest)); err != nil {
		panic(err) // only a value beyond the histogram's range makes it fail
	}
}

// summary is of these times, of good requests, and a number of failed ones.
func (t times) summary(failed int) Summary {
	good := int(t.histogram.TotalCount())
	count := good + failed
	summary := Summary{Count: count, Failed: failed, Quantiles: map[string]*float64{}}
	for name, quantile := range quantiles {
		summary.Quantiles[name] = nil
		if rank := math.Ceil(quantile * float64(count)); good > 0 && rank <= float64(good) {
			value := float64(t.histogram.ValueAtPercentile(100*rank/float64(good))) / 1000
			summary.Quantiles[name] = &value
		}
	}
	if good > 0 {
		mean := t.histogram.Mean() / 1000
		summary.Mean = &mean
	}
	return summary
}

// tally is what a result says of all requests together.
type tally struct {
	plan            *Plan
	classes         []string
	lock            sync.Mutex
	requests        int
	latencies, lags times // of the window
	failed          int   // in the window
	errors          map[string]map[string]int
	warmupErrors    map[string]map[string]int
}

func newTally(plan *Plan, workload *Workload) *tally {
	t := &tally{
		plan: plan, latencies: newTimes(), lags: newTimes(),
		errors: map[string]map[string]int{}, warmupErrors: map[string]map[string]int{},
	}
	for _, class := range workload.Classes {
		t.classes = append(t.classes, class.Name)
	}
	return t
}

// add counts a request that has ended; its times were taken before, so that the lock is no part of them.
func (t *tally) add(request *Request, outcome *record) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.requests++
	errors := t.warmupErrors
	if request.measured(t.plan) {
		errors = t.errors
		t.lags.add(outcome.sent - request.Due)
		if outcome.reason == "" {
			t.latencies.add(outcome.end - request.Due)
		} else {
			t.failed++
		}
	}
	if outcome.reason != "" {
		if errors[outcome.reason] == nil {
			errors[outcome.reason] = map[string]int{}
		}
		errors[outcome.reason][t.classes[request.Class]]++
	}
}

// result describes a finished run.
func (s *sender) result(spans spanCount, processor float64, interrupted bool) (*Result, error) {
	t := s.tally
	if t == nil {
		t = newTally(s.plan, s.workload)
		for index := range s.records {
			t.add(&s.requests[index], &s.records[index])
		}
	}
	result := &Result{
		Event: "result", Version: 1, StartedNS: s.start.UnixNano(), WarmupS: s.plan.WarmupS, WindowS: s.plan.WindowS,
		Classes: t.classes, Requests: t.requests, Errors: t.errors, WarmupErrors: t.warmupErrors,
		SpansCreated: spans.created, SpansExported: spans.exported, SpansProblem: spans.problem,
		Latency: t.latencies.summary(t.failed), Lag: t.lags.summary(0), CPUS: processor, Interrupted: interrupted,
	}
	if s.plan.reports() {
		result.IDs = packedIDs(s.traces)
	}
	if s.tally != nil {
		return result, nil
	}
	var err error
	result.Columns, err = s.columns()
	return result, err
}

func (s *sender) columns() (string, error) {
	count, started := len(s.requests), s.start.UnixNano()
	due, sent, end := make([]int64, count), make([]int64, count), make([]int64, count)
	class, status, good := make([]uint8, count), make([]int16, count), make([]bool, count)
	for index := range s.requests {
		request, outcome := &s.requests[index], &s.records[index]
		due[index] = started + int64(request.Due)
		sent[index] = started + int64(outcome.sent)
		end[index] = started + int64(outcome.end)
		class[index], status[index], good[index] = request.Class, outcome.status, outcome.reason == ""
	}
	var packed bytes.Buffer
	writer, err := zlib.NewWriterLevel(&packed, zlib.BestSpeed)
	if err != nil {
		return "", err
	}
	for _, column := range []any{due, sent, end, class, status, good} {
		if err := binary.Write(writer, binary.LittleEndian, column); err != nil {
			return "", err
		}
	}
	if err := writer.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}
