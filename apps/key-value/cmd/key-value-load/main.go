// Command key-value-load drives a key-value server and prints what it found as JSON.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"tailor/apps/key-value/internal/load"
)

func main() {
	var plan load.Plan
	flag.StringVar(&plan.Address, "address", "127.0.0.1:7070", "of the server: host:port, or unix:/path")
	flag.StringVar(&plan.Protocol, "protocol", "native", "native, redis or memcached")
	flag.IntVar(&plan.Connections, "connections", 50, "kept to the server")
	flag.IntVar(&plan.Threads, "threads", 1, "of the client")
	flag.IntVar(&plan.Sources, "sources", 0, "local addresses 127.0.0.1, 127.0.0.2 ... to connect from; 0: any")
	flag.IntVar(&plan.Depth, "depth", 1, "closed loop: requests of a connection that are sent at once")
	flag.Float64Var(&plan.RateRPS, "rate", 0, "open loop: requests per second; 0: a closed loop")
	flag.IntVar(&plan.Batch, "batch", 1, "keys in a request")
	flag.Float64Var(&plan.GetShare, "gets", 1, "share of gets among the requests; the others are puts")
	flag.Uint64Var(&plan.Keys, "keys", 100_000, "number of keys")
	flag.Float64Var(&plan.Zipf, "zipf", 0, "exponent of the keys' popularity; 0: all alike")
	flag.BoolVar(&plan.Fill, "fill", false, "store every key first")
	flag.BoolVar(&plan.Internal, "internal", false, "ask for the internal latency")
	flag.BoolVar(&plan.Verify, "verify", false, "look into the values")
	flag.DurationVar(&plan.Warmup, "warmup", time.Second, "before what is measured")
	flag.DurationVar(&plan.Window, "window", 5*time.Second, "that is measured; 0: none")
	flag.Uint64Var(&plan.Seed, "seed", 1, "of the requests")
	flag.StringVar(&plan.Log, "log", "", "file that gets a line for each burst: start, status, time, as h2load's")
	flag.Parse()
	if flag.NArg() > 0 {
		fail(fmt.Errorf("unknown argument %q", flag.Arg(0)))
	}
	runtime.GOMAXPROCS(plan.Threads + 1)
	result, err := load.Run(plan)
	if err != nil {
		fail(err)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(result); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "key-value-load:", err)
	os.Exit(1)
}
