package load

import (
	"sync"
	"sync/atomic"
	"time"

	"tailor/apps/key-value/internal/latency"
)

const (
	mostLatency = time.Minute
	digits      = 3
)

// counts are of one thread, read by others; keys but for dropped and unanswered, which are requests.
type counts struct {
	gets, misses, wrong atomic.Int64
	puts, refused       atomic.Int64
	dropped, unanswered atomic.Int64

	mutex   sync.Mutex
	refusal error // the first
}

func (c *counts) refuse(keys int, reason error) {
	c.refused.Add(int64(keys))
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.refusal == nil {
		c.refusal = reason
	}
}

// latencies of one kind of request.
type latencies struct{ external, internal latency.Histogram }

func newLatencies() latencies {
	return latencies{latency.New(mostLatency, digits), latency.New(mostLatency, digits)}
}

func (l latencies) add(other latencies) {
	l.external.Add(other.external)
	l.internal.Add(other.internal)
}

// Result is what a run has found in its window. Latencies and rates are of requests that were done: of gets, whether
// there was a value or not, and of puts that were not refused.
type Result struct {
	FillSeconds float64 `json:"fill_seconds,omitempty"`
	Seconds     float64 `json:"seconds"`
	Gets        int64   `json:"gets"`              // keys
	Misses      int64   `json:"misses"`            // of them without a value
	Wrong       int64   `json:"wrong"`             // of them with another key's value
	Puts        int64   `json:"puts"`              // keys that were stored
	Refused     int64   `json:"refused"`           // keys of puts that the server refused
	Refusal     string  `json:"refusal,omitempty"` // the first of the run
	Dropped     int64   `json:"dropped"`           // requests that were due while too many waited for replies
	Unanswered  int64   `json:"unanswered"`        // requests, at the end of the run

	GetsPerS         float64 `json:"gets_per_s"`
	PutsPerS         float64 `json:"puts_per_s"`
	ClientCPUSeconds float64 `json:"client_cpu_seconds"`
	ServerCPUSeconds float64 `json:"server_cpu_seconds"`
	KeysPerServerCPU float64 `json:"keys_per_server_cpu_second"`
	ServerRecords    int64   `json:"server_records"`

	GetLatency         *latency.Summary `json:"get_latency,omitempty"`
	PutLatency         *latency.Summary `json:"put_latency,omitempty"`
	GetInternalLatency *latency.Summary `json:"get_internal_latency,omitempty"`
	PutInternalLatency *latency.Summary `json:"put_internal_latency,omitempty"`
}
