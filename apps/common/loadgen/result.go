package loadgen

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is the last event: every request, and what can be said about the window at a glance.
//
// Columns is base64(zlib(due_ns[n] sent_ns[n] end_ns[n] class[n] status[n] ok[n])): little-endian int64, int64, int64,
// uint8, int16, uint8; times in nanoseconds since the Unix epoch, in the order of the schedule.
type Result struct {
	Event         string                    `json:"event"`
	Version       int                       `json:"version"`
	StartedNS     int64                     `json:"started_ns"`
	WarmupS       float64                   `json:"warmup_s"`
	WindowS       float64                   `json:"window_s"`
	Classes       []string                  `json:"classes"`
	Requests      int                       `json:"requests"`
	Columns       string                    `json:"columns"`
	Errors        map[string]map[string]int `json:"errors"`        // in the window: reason -> class -> count
	WarmupErrors  map[string]map[string]int `json:"warmup_errors"` // the same of the warm-up
	SpansCreated  int                       `json:"spans_created"` // root spans of the window
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

// summarise takes times of good requests and the number of failed ones.
func summarise(times []time.Duration, failed int) (Summary, error) {
	histogram := hdrhistogram.New(1, longest, 3)
	for _, value := range times {
		if err := histogram.RecordValue(min(max(value.Microseconds(), 0), longest)); err != nil {
			return Summary{}, fmt.Errorf("histogram: %w", err)
		}
	}
	count := len(times) + failed
	summary := Summary{Count: count, Failed: failed, Quantiles: map[string]*float64{}}
	for name, quantile := range quantiles {
		summary.Quantiles[name] = nil
		if rank := math.Ceil(quantile * float64(count)); len(times) > 0 && rank <= float64(len(times)) {
			value := float64(histogram.ValueAtPercentile(100*rank/float64(len(times)))) / 1000
			summary.Quantiles[name] = &value
		}
	}
	if len(times) > 0 {
		mean := histogram.Mean() / 1000
		summary.Mean = &mean
	}
	return summary, nil
}

// result describes a finished run.
func (s *sender) result(spans spanCount, processor float64, interrupted bool) (*Result, error) {
	result := &Result{
		Event: "result", Version: 1, StartedNS: s.start.UnixNano(), WarmupS: s.plan.WarmupS, WindowS: s.plan.WindowS,
		Requests: len(s.requests), Errors: map[string]map[string]int{}, WarmupErrors: map[string]map[string]int{},
		SpansCreated: spans.created, SpansExported: spans.exported, SpansProblem: spans.problem,
		CPUS: processor, Interrupted: interrupted,
	}
	for _, class := range s.workload.Classes {
		result.Classes = append(result.Classes, class.Name)
	}
	var latencies, lags []time.Duration
	failed := 0
	for index := range s.records {
		outcome, due := &s.records[index], s.requests[index].Due
		errors := result.WarmupErrors
		if s.measured(index) {
			errors = result.Errors
			lags = append(lags, outcome.sent-due)
			if outcome.reason == "" {
				latencies = append(latencies, outcome.end-due)
			} else {
				failed++
			}
		}
		if outcome.reason != "" {
			if errors[outcome.reason] == nil {
				errors[outcome.reason] = map[string]int{}
			}
			errors[outcome.reason][result.Classes[s.requests[index].Class]]++
		}
	}
	var err error
	if result.Latency, err = summarise(latencies, failed); err != nil {
		return nil, err
	}
	if result.Lag, err = summarise(lags, 0); err != nil {
		return nil, err
	}
	if s.plan.reports() {
		result.IDs = packedIDs(s.traces)
	}
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
