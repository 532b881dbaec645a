package load

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	mostLatency = int64(time.Minute)
	digits      = 3
)

// counts are of one thread, read by others; keys but for the last ones, which are requests.
type counts struct {
	gets, misses, wrong, puts    atomic.Int64
	refused, dropped, unanswered atomic.Int64

	mutex   sync.Mutex
	refusal error // the first
}

func (c *counts) refuse(reason error) {
	c.refused.Add(1)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.refusal == nil {
		c.refusal = reason
	}
}

// latencies of one kind of request.
type latencies struct{ external, internal latency }

type latency struct{ histogram *hdrhistogram.Histogram }

func newLatencies() latencies {
	return latencies{latency{newHistogram()}, latency{newHistogram()}}
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, mostLatency, digits) }

func (l latency) record(took time.Duration) {
	_ = l.histogram.RecordValue(min(max(int64(took), 1), mostLatency)) // it fits, as it was clipped
}

// Latency is a distribution in microseconds.
type Latency struct {
	Count  int64   `json:"count"`
	MeanUS float64 `json:"mean_us"`
	P50US  float64 `json:"p50_us"`
	P95US  float64 `json:"p95_us"`
	P99US  float64 `json:"p99_us"`
	P999US float64 `json:"p999_us"`
	MaxUS  float64 `json:"max_us"`
}

func summary(histogram *hdrhistogram.Histogram) *Latency {
	if histogram.TotalCount() == 0 {
		return nil
	}
	at := func(percent float64) float64 { return float64(histogram.ValueAtPercentile(percent)) / 1e3 }
	return &Latency{
		Count:  histogram.TotalCount(),
		MeanUS: histogram.Mean() / 1e3,
		P50US:  at(50),
		P95US:  at(95),
		P99US:  at(99),
		P999US: at(99.9),
		MaxUS:  float64(histogram.Max()) / 1e3,
	}
}

// Result is what a run has found. Rates and CPU seconds are of the window.
type Result struct {
	FillSeconds float64 `json:"fill_seconds,omitempty"`
	Seconds     float64 `json:"seconds"`
	Gets        int64   `json:"gets"`   // keys
	Misses      int64   `json:"misses"` // of them without a value
	Wrong       int64   `json:"wrong"`  // of them with another key's value
	Puts        int64   `json:"puts"`   // keys
	Refused     int64   `json:"refused"`
	Refusal     string  `json:"refusal,omitempty"`
	Dropped     int64   `json:"dropped"`    // requests that were due while too many waited for replies
	Unanswered  int64   `json:"unanswered"` // requests

	GetsPerS         float64 `json:"gets_per_s"`
	PutsPerS         float64 `json:"puts_per_s"`
	ClientCPUSeconds float64 `json:"client_cpu_seconds"`
	ServerCPUSeconds float64 `json:"server_cpu_seconds"`
	KeysPerServerCPU float64 `json:"keys_per_server_cpu_second"`
	ServerRecords    int64   `json:"server_records"`

	GetLatency         *Latency `json:"get_latency,omitempty"`
	PutLatency         *Latency `json:"put_latency,omitempty"`
	GetInternalLatency *Latency `json:"get_internal_latency,omitempty"`
	PutInternalLatency *Latency `json:"put_internal_latency,omitempty"`
}
