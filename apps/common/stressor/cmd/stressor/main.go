// Command stressor puts load on one shared resource and writes what it did as JSON, a line a second:
//
//	stressor --kind l3 --threads 2 --duty 0.5 --seconds 20
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"tailor/apps/common/stressor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stressor:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, arguments []string) error {
	plan := stressor.Plan{Every: time.Second}
	flags := flag.NewFlagSet("stressor", flag.ContinueOnError)
	flags.StringVar(&plan.Kind, "kind", "", "one of "+strings.Join(stressor.Kinds(), ", "))
	flags.IntVar(&plan.Threads, "threads", 1, "threads, each with a working set of its own")
	flags.Float64Var(&plan.Duty, "duty", 1, "share of the time in which each thread works")
	flags.Float64Var(&plan.Seconds, "seconds", 0, "how long; 0: until it is stopped")
	cpus := flags.String("cpus", "", "CPUs that the threads are bound to, such as 0-3,8; none: the kernel chooses")
	flags.IntVar(&plan.Bytes, "bytes", 0, "working set of a thread; 0: from the machine's caches")
	flags.StringVar(&plan.Directory, "directory", "", "where block writes its file; none: the system's place")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	var err error
	if plan.CPUs, err = stressor.ParseCPUs(*cpus); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	return stressor.Run(ctx, plan, func(report stressor.Report) { _ = out.Encode(report) })
}
