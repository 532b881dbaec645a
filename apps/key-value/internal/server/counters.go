package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// counters are a thread's own.
type counters struct {
	gets, puts, hits, bad atomic.Int64 // keys, keys, keys, requests
	bytesIn, bytesOut     atomic.Int64
	connections           atomic.Int64
	getLatency            latency
	putLatency            latency
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

	GetLatency *hdrhistogram.Histogram `json:"-"` // internal, of a sample of the requests [ns]
	PutLatency *hdrhistogram.Histogram `json:"-"` // the same, the wait for the log included
}

const (
	mostLatency = int64(10 * time.Second)
	digits      = 2 // of a latency that are kept: 1 %
)

// latency is a histogram that one thread writes and others read.
type latency struct {
	mutex     sync.Mutex
	histogram *hdrhistogram.Histogram
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, mostLatency, digits) }

func (c *counters) prepare() {
	c.getLatency.histogram = newHistogram()
	c.putLatency.histogram = newHistogram()
}

func (l *latency) record(took time.Duration, times int) {
	l.mutex.Lock()
	_ = l.histogram.RecordValues(min(max(int64(took), 1), mostLatency), int64(times)) // it fits, as it was clipped
	l.mutex.Unlock()
}

func (l *latency) addTo(sum **hdrhistogram.Histogram) {
	if *sum == nil {
		*sum = newHistogram()
	}
	l.mutex.Lock()
	(*sum).Merge(l.histogram)
	l.mutex.Unlock()
}

func (c *Counts) add(from *counters) {
	c.Gets += from.gets.Load()
	c.Hits += from.hits.Load()
	c.Puts += from.puts.Load()
	c.Bad += from.bad.Load()
	c.BytesIn += from.bytesIn.Load()
	c.BytesOut += from.bytesOut.Load()
	c.Connections += from.connections.Load()
	from.getLatency.addTo(&c.GetLatency)
	from.putLatency.addTo(&c.PutLatency)
}
