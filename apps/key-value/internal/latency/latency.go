// Package latency keeps latencies in HDR histograms and tells their distribution.
package latency

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram is for one goroutine.
type Histogram struct{ kept *hdrhistogram.Histogram }

// New makes a histogram of latencies up to most, with so many significant digits.
func New(most time.Duration, digits int) Histogram {
	return Histogram{hdrhistogram.New(1, int64(most), digits)}
}

// Record notes that something took so long, several times; what is longer than the histogram's most counts as that.
func (h Histogram) Record(took time.Duration, times int) {
	clipped := min(max(int64(took), 1), h.kept.HighestTrackableValue())
	_ = h.kept.RecordValues(clipped, int64(times)) // it fits, as it was clipped
}

// Add adds what another histogram, of the same range, has.
func (h Histogram) Add(other Histogram) { h.kept.Merge(other.kept) }

// Count is how much was recorded.
func (h Histogram) Count() int64 { return h.kept.TotalCount() }

// Summary is a distribution in microseconds.
type Summary struct {
	Count  int64   `json:"count"`
	MeanUS float64 `json:"mean_us"`
	P50US  float64 `json:"p50_us"`
	P95US  float64 `json:"p95_us"`
	P99US  float64 `json:"p99_us"`
	P999US float64 `json:"p999_us"`
	MaxUS  float64 `json:"max_us"`
}

// Summary is the distribution of what was recorded; nil where nothing was.
func (h Histogram) Summary() *Summary {
	if h.Count() == 0 {
		return nil
	}
	at := func(percent float64) float64 { return float64(h.kept.ValueAtPercentile(percent)) / 1e3 }
	return &Summary{
		Count:  h.Count(),
		MeanUS: h.kept.Mean() / 1e3,
		P50US:  at(50),
		P95US:  at(95),
		P99US:  at(99),
		P999US: at(99.9),
		MaxUS:  float64(h.kept.Max()) / 1e3,
	}
}
