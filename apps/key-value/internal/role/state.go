package role

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/server"
)

// state is what the service tells of itself.
type state struct {
	engine  engines.Engine
	server  atomic.Pointer[server.Server]
	started time.Time
	stopped chan struct{}

	mutex sync.Mutex
	rates rates
}

// rates are of the last whole second.
type rates struct {
	Gets float64 `json:"gets_per_s"`
	Puts float64 `json:"puts_per_s"`
}

// quantiles are of the internal latency of a sample of the requests since the start [us].
type quantiles struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_us"`
	P50   float64 `json:"p50_us"`
	P95   float64 `json:"p95_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

func newState(engine engines.Engine) *state {
	return &state{engine: engine, started: time.Now(), stopped: make(chan struct{})}
}

// watch counts the requests of each second.
func (s *state) watch(answering *server.Server) {
	s.server.Store(answering)
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		before, at := answering.Counts(), time.Now()
		for {
			select {
			case <-s.stopped:
				return
			case <-ticker.C:
			}
			now := time.Now()
			counts, seconds := answering.Counts(), now.Sub(at).Seconds()
			s.mutex.Lock()
			s.rates = rates{float64(counts.Gets-before.Gets) / seconds, float64(counts.Puts-before.Puts) / seconds}
			s.mutex.Unlock()
			before, at = counts, now
		}
	}()
}

func (s *state) stop() { close(s.stopped) }

// JSON is the state now. It is what a request for stats of the binary protocol is answered, too.
func (s *state) JSON() []byte {
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &used) // it cannot fail for this process
	told := struct {
		CPUSeconds    float64       `json:"cpu_seconds"`
		UptimeSeconds float64       `json:"uptime_seconds"`
		MaxRSSBytes   int64         `json:"max_rss_bytes"`
		Rates         rates         `json:"rates"`
		Requests      server.Counts `json:"requests"`
		GetLatency    *quantiles    `json:"get_latency,omitempty"`
		PutLatency    *quantiles    `json:"put_latency,omitempty"`
		Engine        engines.Stats `json:"engine"`
	}{
		CPUSeconds:    float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9,
		UptimeSeconds: time.Since(s.started).Seconds(),
		MaxRSSBytes:   used.Maxrss << 10,
		Engine:        s.engine.Stats(),
	}
	s.mutex.Lock()
	told.Rates = s.rates
	s.mutex.Unlock()
	if answering := s.server.Load(); answering != nil {
		told.Requests = answering.Counts()
		told.GetLatency, told.PutLatency = summary(told.Requests.GetLatency), summary(told.Requests.PutLatency)
	}
	text, _ := json.Marshal(told) // numbers and words: it cannot fail
	return text
}

func summary(histogram *hdrhistogram.Histogram) *quantiles {
	if histogram == nil || histogram.TotalCount() == 0 {
		return nil
	}
	at := func(percent float64) float64 { return float64(histogram.ValueAtPercentile(percent)) / 1e3 }
	return &quantiles{
		Count: histogram.TotalCount(), Mean: histogram.Mean() / 1e3,
		P50: at(50), P95: at(95), P99: at(99), P999: at(99.9), Max: float64(histogram.Max()) / 1e3,
	}
}
