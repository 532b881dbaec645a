package service

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// bare is a service whose spans go to memory; only its routes are served.
func bare(workers int) (*Service, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	return &Service{
		Name:       "under-test",
		parameters: NewParameters(environment(nil)),
		tracing:    newTracing("under-test", true, spans),
		mux:        http.NewServeMux(),
		workers:    newWorkerPool(workers),
		timeout:    RequestTimeout,
	}, spans
}

func ask(s *Service, method, path, body string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	s.mux.ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
	return answer
}

func TestWorkersAreBoundedAndTheRestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, requests = 3, 10
		s, _ := bare(workers)
		defer func() { _ = s.Close(t.Context()) }()
		var mutex sync.Mutex
		now, most := 0, 0
		s.Handle("GET /work", func(http.ResponseWriter, *http.Request) error {
			mutex.Lock()
			now++
			most = max(most, now)
			mutex.Unlock()
			time.Sleep(time.Second) // virtual
			mutex.Lock()
			now--
			mutex.Unlock()
			return nil
		})
		start := time.Now()
		var all sync.WaitGroup
		for range requests {
			all.Go(func() {
				if got := ask(s, "GET", "/work", "").Code; got != http.StatusOK {
					t.Errorf("status %d", got)
				}
			})
		}
		all.Wait()
		if most != workers {
			t.Errorf("%d requests were worked on at once, %d workers", most, workers)
		}
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("10 requests of 1 s took 3 workers %v", took)
		}
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := bare(1)
		defer func() { _ = s.Close(t.Context()) }()
		s.Handle("GET /slow", func(_ http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			return fmt.Errorf("waiting: %w", r.Context().Err())
		})
		start := time.Now()
		var all sync.WaitGroup
		answers := make(chan int, 2)
		for range 2 {
			all.Go(func() { answers <- ask(s, "GET", "/slow", "").Code })
		}
		all.Wait()
		if took := time.Since(start); took != RequestTimeout {
			t.Errorf("took %v", took)
		}
		got := map[int]int{<-answers: 1, <-answers: 1}
		// The one at work passed its deadline; the one in line got no worker, or one too late to use it.
		if got[http.StatusGatewayTimeout] != 1 {
			t.Errorf("statuses %v", got)
		}
	})
}

func TestErrorsBecomeStatuses(t *testing.T) {
	s, _ := bare(1)
	defer func() { _ = s.Close(t.Context()) }()
	for path, row := range map[string]struct {
		err  error
		want int
		text string
	}{
		"/bad":      {BadRequest("id=%q", "x"), http.StatusBadRequest, `id="x"`},
		"/unknown":  {fmt.Errorf("text: %w", NotFound("no post 1")), http.StatusNotFound, "no post 1"},
		"/conflict": {fmt.Errorf("db: %w", ErrConflict), http.StatusConflict, "db: exists already"},
		"/broken":   {errors.New("cache: connection refused"), http.StatusBadGateway, "cache: connection refused"},
	} {
		s.Handle("GET "+path, func(http.ResponseWriter, *http.Request) error { return row.err })
		answer := ask(s, "GET", path, "")
		if answer.Code != row.want || strings.TrimSpace(answer.Body.String()) != row.text {
			t.Errorf("%s: %d %q", path, answer.Code, answer.Body)
		}
	}
}

func TestBodyIsBounded(t *testing.T) {
	s, _ := bare(1)
	defer func() { _ = s.Close(t.Context()) }()
	s.Handle("POST /json", func(w http.ResponseWriter, r *http.Request) error {
		var list []string
		if err := ReadJSON(r, &list); err != nil {
			return err
		}
		return WriteJSON(w, list)
	})
	if answer := ask(s, "POST", "/json", `["a"]`); answer.Code != http.StatusOK || answer.Body.String() != `["a"]` {
		t.Errorf("%d %q", answer.Code, answer.Body)
	}
	if got := ask(s, "POST", "/json", `{`).Code; got != http.StatusBadRequest {
		t.Errorf("broken JSON: %d", got)
	}
	if got := ask(s, "POST", "/json", strings.Repeat("x", MaxBodyBytes+1)).Code; got != http.StatusRequestEntityTooLarge {
		t.Errorf("long body: %d", got)
	}
}

func TestHealthFollowsItsChecks(t *testing.T) {
	s, _ := bare(1)
	defer func() { _ = s.Close(t.Context()) }()
	admin := httptest.NewServer(s.AdminRoutes())
	defer admin.Close()
	status := func() int {
		answer, err := http.Get(admin.URL + "/health")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	if got := status(); got != http.StatusOK {
		t.Errorf("without stores: %d", got)
	}
	if _, err := s.MemcachedAt("cache", "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if got := status(); got != http.StatusServiceUnavailable {
		t.Errorf("with a cache that is not there: %d", got)
	}
}
