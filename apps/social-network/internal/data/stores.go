package data

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience is how long a store may take to accept connections: containers start together, and PostgreSQL
// initialises an empty volume first.
const patience = 60 * time.Second

const betweenAttempts = 100 * time.Millisecond

// openDatabase connects to a database, waiting until it accepts.
func openDatabase(ctx context.Context, host string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("postgres://postgres:postgres@" + host + ":5432/postgres?sslmode=disable&connect_timeout=5")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", host, err)
	}
	return retry(ctx, host, func() (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config) })
}

// dial connects to a cache, waiting until it accepts.
func dial(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	return retry(ctx, address, func() (net.Conn, error) { return dialer.DialContext(ctx, "tcp", address) })
}

func retry[T any](ctx context.Context, name string, attempt func() (T, error)) (T, error) {
	deadline := time.Now().Add(patience)
	for {
		result, err := attempt()
		if err == nil {
			return result, nil
		}
		if time.Now().After(deadline) {
			return result, fmt.Errorf("%s does not accept connections: %w", name, err)
		}
		select {
		case <-ctx.Done():
			return result, fmt.Errorf("%s: %w", name, errors.Join(ctx.Err(), err))
		case <-time.After(betweenAttempts):
		}
	}
}

// oneShotGC lets the heap grow twelvefold between collections: a command that streams hundreds of megabytes through a few
// megabytes of heap would otherwise collect more than it works.
const oneShotGC = 1200

// task is one store's part of the work; tasks of one command run at once.
type task struct {
	name string
	run  func(ctx context.Context) (string, error)
}

// runTasks runs those of tasks that only names (all, if it is empty), each at once, and prints what each did and
// how long it took.  The first error stops the others.
func runTasks(ctx context.Context, tasks []task, only []string) error {
	debug.SetGCPercent(oneShotGC)
	known := make([]string, 0, len(tasks))
	chosen := make([]task, 0, len(tasks))
	for _, t := range tasks {
		known = append(known, t.name)
		if len(only) == 0 || slices.Contains(only, t.name) {
			chosen = append(chosen, t)
		}
	}
	for _, name := range only {
		if !slices.Contains(known, name) {
			return fmt.Errorf("--only %s: known are %v", name, known)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	finished := make(chan error, len(chosen))
	for _, t := range chosen {
		go func() {
			started := time.Now()
			done, err := t.run(ctx)
			if err != nil {
				cancel()
				finished <- fmt.Errorf("%s: %w", t.name, err)
				return
			}
			fmt.Printf("%-14s %s in %.2f s\n", t.name, done, time.Since(started).Seconds())
			finished <- nil
		}()
	}
	var first error
	for range chosen {
		if err := <-finished; err != nil && first == nil {
			first = err
		}
	}
	return first
}
