// Package service is what every role of an application is made of: an HTTP server with a bounded pool of request
// workers and a deadline per request, an admin port, traced clients for HTTP, PostgreSQL, memcached and redis, and
// parameters from the environment whose defaults are those of the named libraries.
//
// It exists so that a role is only its own work, and so that a tuner finds the same parameters, spans and counters
// in each.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Ports that every role listens on, inside its own network namespace; API_ADDRESS and ADMIN_ADDRESS name others where
// there is none.
const (
	APIAddress   = ":8080"
	AdminAddress = ":9100"
)

// RequestTimeout is the deadline of a request: that of nginx's proxy_read_timeout, the documented default of the
// proxy in front.  A caller that goes away earlier cancels its request by closing the connection.
const RequestTimeout = 60 * time.Second

// shutdownTimeout bounds how long a stopping service waits for its requests and its last spans; Docker kills after 10 s.
const shutdownTimeout = 5 * time.Second

// Service is one running role. Make it with New, register routes with Handle, then Run it.
type Service struct {
	Name       string
	parameters *Parameters
	tracing    *Tracing
	mux        *http.ServeMux
	admin      *http.ServeMux
	workers    *workerPool
	timeout    time.Duration

	mutex  sync.Mutex
	checks []func(context.Context) error
	closes []func()
}

// New makes the service of a role from the process's environment; the role's name is its compose service name.
// It sets GOMAXPROCS and GOGC only through the Go runtime, which reads both itself.
func New(ctx context.Context, name string, lookup func(string) (string, bool)) (*Service, error) {
	parameters := NewParameters(lookup)
	workers, err := parameters.Integer(Workers, DefaultWorkers)
	if err != nil {
		return nil, err
	}
	parameters.watchRuntime()
	switchedOn, err := parameters.tracing()
	if err != nil {
		return nil, err
	}
	tracing, err := NewTracing(ctx, name, switchedOn)
	if err != nil {
		return nil, fmt.Errorf("tracing of %s: %w", name, err)
	}
	return &Service{
		Name:       name,
		parameters: parameters,
		tracing:    tracing,
		mux:        http.NewServeMux(),
		admin:      http.NewServeMux(),
		workers:    newWorkerPool(workers),
		timeout:    RequestTimeout,
	}, nil
}

// Parameters gives a role access to parameters of its own.
func (s *Service) Parameters() *Parameters { return s.parameters }

// OnHealth adds a check that GET /health runs: an error means that the service is not ready.
func (s *Service) OnHealth(check func(context.Context) error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.checks = append(s.checks, check)
}

// OnClose adds what is to be closed after the last request.
func (s *Service) OnClose(closing func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.closes = append(s.closes, closing)
}

// Routes is what the API port serves.
func (s *Service) Routes() http.Handler { return s.mux }

// Run serves until ctx ends, then finishes the requests under way and exports the last spans.
func (s *Service) Run(ctx context.Context) error {
	api := &http.Server{
		Addr: s.parameters.Text("API_ADDRESS", APIAddress), Handler: s.mux, ReadHeaderTimeout: s.timeout,
	}
	admin := &http.Server{
		Addr: s.parameters.Text("ADMIN_ADDRESS", AdminAddress), Handler: s.AdminRoutes(), ReadHeaderTimeout: s.timeout,
	}
	failed := make(chan error, 2)
	for _, server := range []*http.Server{api, admin} {
		go func() { failed <- server.ListenAndServe() }()
	}
	slog.Info("serving", "role", s.Name, "parameters", s.parameters.Effective())
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err = errors.Join(err, api.Shutdown(stopping), s.Close(stopping), admin.Shutdown(stopping))
	return err
}

// Close closes clients and stores and exports the last spans; Run calls it.
func (s *Service) Close(ctx context.Context) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, closing := range s.closes {
		closing()
	}
	s.closes = nil
	return s.tracing.Shutdown(ctx)
}
