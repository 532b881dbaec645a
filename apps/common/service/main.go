package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// Role adds a role's routes to its service.
type Role func(context.Context, *Service) error

// Task runs once and ends: it makes or checks the data that the roles work on.
type Task func(ctx context.Context, arguments []string) error

// Main is the main function of an application whose logic services are one static binary, with the role or the task as
// its first argument: one small image serves them all.
func Main(program string, roles map[string]Role, tasks map[string]Task) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], roles, tasks); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, roles map[string]Role, tasks map[string]Task) error {
	names := slices.Sorted(maps.Keys(roles))
	names = append(names, slices.Sorted(maps.Keys(tasks))...)
	known := strings.Join(names, ", ")
	if len(arguments) == 0 {
		return errors.New("no role; known are " + known)
	}
	name := arguments[0]
	if task, isTask := tasks[name]; isTask {
		if err := task(ctx, arguments[1:]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	role, isRole := roles[name]
	if !isRole {
		return fmt.Errorf("unknown role %q; known are %s", name, known)
	}
	s, err := New(ctx, name, os.LookupEnv)
	if err != nil {
		return err
	}
	if err := role(ctx, s); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return s.Run(ctx)
}
