// Package role is the key-value service: its parameters, an engine, the binary protocol, HTTP, and the admin port.
package role

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"tailor/apps/common/service"
	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/server"
	"tailor/apps/key-value/internal/socket"
	"tailor/apps/key-value/internal/web"
)

// Name is that of the role, and of its spans' service.
const Name = "key-value"

// requestsPerSpan: one in so many requests of the binary protocol has a span, so that a million requests per second are
// a hundred spans.
const requestsPerSpan = 10_000

// mostConnections is how many the service would like to have; the operating system may allow fewer.
const mostConnections = 120_000

// New opens the engine and starts to answer.
func New(ctx context.Context, s *service.Service) error {
	settings, err := read(s.Parameters())
	if err != nil {
		return err
	}
	if err := socket.AllowDescriptors(mostConnections); err != nil {
		slog.Info("fewer connections than wished for", "reason", err)
	}
	begin := time.Now()
	engine, err := engines.Open(ctx, settings.engine, settings.engineOptions)
	if err != nil {
		return err
	}
	slog.Info("engine open", "seconds", time.Since(begin).Seconds(), "stats", engine.Stats())
	state := newState(engine)
	options := settings.server
	options.Stats = state.JSON
	options.SpanEvery = requestsPerSpan
	options.Span = func(operation string, keys int, start, end time.Time) {
		s.Span(
			operation, start, end,
			attribute.String("db.system.name", settings.engine), attribute.Int("db.operation.batch.size", keys),
		)
	}
	answering, err := server.Start(engine, options)
	if err != nil {
		_ = engine.Close()
		return err
	}
	state.watch(answering)
	s.Parameters().Watch(threadsName, func() int64 { return int64(answering.Threads()) })
	slog.Info("answering the binary protocol", "address", answering.Address())
	web.Register(s, engine)
	s.HandleAdmin("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(state.JSON())
	})
	s.HandleAdmin("POST /snapshot", func(w http.ResponseWriter, _ *http.Request) { takeSnapshot(w, engine) })
	s.OnHealth(func(context.Context) error {
		if problem := engine.Stats().Problem; problem != "" {
			return fmt.Errorf("puts are refused: %s", problem)
		}
		return nil
	})
	s.OnClose(func() {
		state.stop()
		if err := answering.Close(); err != nil {
			slog.Error("closing", "error", err)
		}
		if err := engine.Close(); err != nil {
			slog.Error("closing the engine", "error", err)
		}
	})
	return nil
}

// snapshotter is an engine that can write everything to a file now.
type snapshotter interface{ Snapshot() error }

func takeSnapshot(w http.ResponseWriter, engine engines.Engine) {
	can, isAble := engine.(snapshotter)
	if !isAble {
		http.Error(w, "the engine takes no snapshots", http.StatusNotImplemented)
		return
	}
	if err := can.Snapshot(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(engine.Stats())
}
