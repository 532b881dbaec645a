// Command loadgen reads a plan, drives the load and writes events to its standard output, one JSON value per line.
//
//	loadgen PLAN.json    ("-" reads the plan from the standard input)
//
//	loadgen -hold | -relay HOST:PORT | -listening HOST:PORT... | -known NAME=ADDRESS,... | -counters    (relay.go)
//	loadgen -peer | -link HOST    (link.go)
//
// Events: {"event":"phase"...}, {"event":"progress"...}, where the plan has live_ms {"event":"window"...}, then
// {"event":"result"...} or {"event":"problem"...}.
// Exit status: 0 finished, 1 could not finish, 2 plan refused before anything was sent, 143 stopped by a signal.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"tailor/apps/common/loadgen"
)

const (
	statusFailed      = 1
	statusRefused     = 2
	statusInterrupted = 128 + int(syscall.SIGTERM)
)

func main() {
	if done, err := agent(os.Args[1:]); done {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(statusFailed)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "-serve" {
		fmt.Fprintln(os.Stderr, serve(os.Args[2]))
		os.Exit(statusFailed)
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: loadgen PLAN.json")
		os.Exit(statusRefused)
	}
	os.Exit(drive(os.Args[1]))
}

func drive(path string) int {
	events := &loadgen.Events{Writer: os.Stdout}
	plan, workload, err := read(path)
	if err != nil {
		events.Emit(loadgen.Problem{Event: "problem", Refused: true, Message: err.Error()})
		return statusRefused
	}
	if err := loadgen.RaisePriority(); err != nil {
		fmt.Fprintln(os.Stderr, "runs with ordinary priority:", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	result, err := loadgen.Run(ctx, plan, workload, events)
	if err != nil {
		if errors.As(err, new(loadgen.Refusal)) {
			events.Emit(loadgen.Problem{Event: "problem", Refused: true, Message: err.Error()})
			return statusRefused
		}
		events.Emit(loadgen.Problem{Event: "problem", Message: err.Error()})
		return statusFailed
	}
	events.Emit(result)
	if events.Err() != nil {
		fmt.Fprintln(os.Stderr, "events:", events.Err())
		return statusFailed
	}
	if result.Interrupted {
		return statusInterrupted
	}
	return 0
}

func read(path string) (*loadgen.Plan, *loadgen.Workload, error) {
	file := os.Stdin
	if path != "-" {
		var err error
		if file, err = os.Open(path); err != nil {
			return nil, nil, fmt.Errorf("plan: %w", err)
		}
		defer file.Close()
	}
	plan, err := loadgen.ReadPlan(file)
	if err != nil {
		return nil, nil, err
	}
	workload, err := plan.ReadWorkload()
	return plan, workload, err
}
