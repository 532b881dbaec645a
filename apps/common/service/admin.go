package service

import (
	"context"
	"encoding/json"
	"net/http"
)

// AdminRoutes is what the controller asks: never traced, never behind the worker pool, so that a service that is
// busy still answers it.
func (s *Service) AdminRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.admin)
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /parameters", s.parameters.serve)
	mux.HandleFunc("GET /spans", func(w http.ResponseWriter, _ *http.Request) { writeCounts(w, s.tracing.Counts()) })
	mux.HandleFunc("POST /flush", func(w http.ResponseWriter, r *http.Request) {
		if err := s.tracing.Flush(r.Context()); err != nil {
			http.Error(w, "flush: "+err.Error(), http.StatusBadGateway)
			return
		}
		writeCounts(w, s.tracing.Counts())
	})
	return mux
}

// HandleAdmin serves a pattern of http.ServeMux on the admin port, as a role's own.
func (s *Service) HandleAdmin(pattern string, handler http.HandlerFunc) {
	s.admin.HandleFunc(pattern, handler)
}

func (s *Service) health(w http.ResponseWriter, r *http.Request) {
	if err := s.Healthy(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// Healthy is nil when every store of the service answers.
func (s *Service) Healthy(ctx context.Context) error {
	s.mutex.Lock()
	checks := s.checks
	s.mutex.Unlock()
	for _, check := range checks {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func writeCounts(w http.ResponseWriter, counts SpanCounts) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(counts)
}
