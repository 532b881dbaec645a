package role

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/latency"
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
		CPUSeconds    float64          `json:"cpu_seconds"`
		UptimeSeconds float64          `json:"uptime_seconds"`
		MaxRSSBytes   int64            `json:"max_rss_bytes"`
		Rates         rates            `json:"rates"`
		Requests      server.Counts    `json:"requests"`
		GetLatency    *latency.Summary `json:"get_latency,omitempty"` // internal, of a sample of the requests since the start
		PutLatency    *latency.Summary `json:"put_latency,omitempty"`
		Engine        engines.Stats    `json:"engine"`
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
		told.GetLatency, told.PutLatency = told.Requests.GetLatency.Summary(), told.Requests.PutLatency.Summary()
	}
	text, _ := json.Marshal(told) // numbers and words: it cannot fail
	return text
}
