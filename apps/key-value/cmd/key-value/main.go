package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/server"
)

func main() {
	threads, _ := strconv.Atoi(os.Args[2])
	batch, _ := strconv.Atoi(os.Args[3])
	buffer, _ := strconv.Atoi(os.Args[4])
	runtime.GOMAXPROCS(threads + 1)
	e, err := engines.Open(context.Background(), "table", engines.Options{Records: 10_000_000, Shards: 64})
	if err != nil {
		log.Fatal(err)
	}
	_, err = server.Start(e, server.Options{Address: os.Args[1], Threads: threads, Batch: batch, Buffer: buffer, Stats: func() []byte {
		var used unix.Rusage
		unix.Getrusage(unix.RUSAGE_SELF, &used)
		b, _ := json.Marshal(map[string]any{"cpu_seconds": float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9, "engine": e.Stats()})
		return b
	}})
	if err != nil {
		log.Fatal(err)
	}
	select {}
}
