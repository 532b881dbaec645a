package server

import (
	"sync"
	"sync/atomic"
	"time"

	"tailor/apps/key-value/internal/latency"
)

// counters are a thread's own.
type counters struct {
	gets, puts, hits, bad atomic.Int64 // keys, keys, keys, requests
	bytesIn, bytesOut     atomic.Int64
	connections           atomic.Int64
	getLatency            shared
	putLatency            shared
	_                     [64]byte
}

// Counts are what a server has done.
type Counts struct {
	Gets        int64 `json:"gets"` // keys asked for
	Hits        int64 `json:"hits"` // of them found
	Puts        int64 `json:"puts"` // keys stored
	Bad         int64 `json:"bad"`  // requests that were none
	BytesIn     int64 `json:"bytes_in"`
	BytesOut    int64 `json:"bytes_out"`
	Connections int64 `json:"connections"` // now

	GetLatency latency.Histogram `json:"-"` // internal, of a sample of the requests
	PutLatency latency.Histogram `json:"-"` // the same, the wait for the log included
}

const (
	mostLatency = 10 * time.Second
	digits      = 2 // of a latency that are kept: 1 %
)

// shared is a histogram that one thread writes and others read.
type shared struct {
	mutex     sync.Mutex
	histogram latency.Histogram
}

func newHistogram() latency.Histogram { return latency.New(mostLatency, digits) }

func (c *counters) prepare() {
	c.getLatency.histogram = newHistogram()
	c.putLatency.histogram = newHistogram()
}

func (s *shared) record(took time.Duration, times int) {
	s.mutex.Lock()
	s.histogram.Record(took, times)
	s.mutex.Unlock()
}

func (s *shared) addTo(sum latency.Histogram) {
	s.mutex.Lock()
	sum.Add(s.histogram)
	s.mutex.Unlock()
}

func (c *Counts) add(from *counters) {
	c.Gets += from.gets.Load()
	c.Hits += from.hits.Load()
	c.Puts += from.puts.Load()
	c.Bad += from.bad.Load()
	c.BytesIn += from.bytesIn.Load()
	c.BytesOut += from.bytesOut.Load()
	c.Connections += from.connections.Load()
	from.getLatency.addTo(c.GetLatency)
	from.putLatency.addTo(c.PutLatency)
}
