// Package load drives a key-value server: few threads with many connections, waited for with epoll. It exists beside
// Tailor's load generator because that one speaks HTTP, one request at a time on a connection.
package load

import (
	"fmt"
	"time"

	"tailor/apps/key-value/internal/dialect"
	"tailor/apps/key-value/internal/wire"
)

// Plan says what is asked of which server, and how.
type Plan struct {
	Address     string // host:port, or unix:/path of a socket
	Protocol    string // native, redis or memcached
	Connections int
	Threads     int
	Sources     int           // local addresses 127.0.0.1, 127.0.0.2 ...: each has some 28,000 ports towards one server
	Depth       int           // closed loop: requests sent at once, before any reply is waited for
	RateRPS     float64       // open loop: requests due in a second, at random times; 0: a closed loop
	Batch       int           // keys in a request
	GetShare    float64       // of the requests; the others are puts
	Keys        uint64        // keys are 0 to Keys-1
	Zipf        float64       // exponent of the keys' popularity; 0: all alike
	Fill        bool          // store every key first
	Internal    bool          // ask for the internal latency (native)
	Verify      bool          // look into the values
	Warmup      time.Duration // before the window
	Window      time.Duration // that is measured
	Seed        uint64
	Log         string // file that gets a line for each burst; empty: none
}

// Check says what of a plan cannot be done.
func (p *Plan) Check() error {
	protocol, err := dialect.Of(p.Protocol)
	if err != nil {
		return err
	}
	_, isNative := protocol.(dialect.Native)
	for _, wrong := range []struct {
		is     bool
		reason string
	}{
		{p.Connections < 1 || p.Connections > 1_000_000, "connections: allowed is 1 to 1,000,000"},
		{p.Threads < 1 || p.Threads > p.Connections, "threads: allowed is 1 to the number of connections"},
		{p.Sources < 0 || p.Sources > 250, "sources: allowed is 0 (any) to 250"},
		{p.Depth < 1, "depth: allowed is 1 or more"},
		{p.RateRPS < 0, "rate: allowed is 0 (closed loop) or more"},
		{p.Batch < 1 || p.Batch > wire.MaxCount, fmt.Sprintf("batch: allowed is 1 to %d", wire.MaxCount)},
		{!(p.GetShare >= 0 && p.GetShare <= 1), "gets: allowed is 0 to 1"},
		{p.Keys < 1, "keys: allowed is 1 or more"},
		{!(p.Zipf >= 0 && p.Zipf <= maxExponent), fmt.Sprintf("zipf: allowed is 0 (uniform) to %d", maxExponent)},
		{p.Internal && !isNative, "internal latency: only our own protocol carries it"},
		{p.Warmup < 0 || p.Window < 0, "durations: allowed is 0 or more"},
		{p.Window == 0 && !p.Fill, "nothing to do: neither a window nor keys to be stored"},
	} {
		if wrong.is {
			return fmt.Errorf("%s", wrong.reason)
		}
	}
	return nil
}

func (p *Plan) dialect() dialect.Dialect {
	protocol, _ := dialect.Of(p.Protocol) // Check has seen it
	if native, isNative := protocol.(dialect.Native); isNative {
		native.WithLatency = p.Internal
		return native
	}
	return protocol
}
