package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// serve is a small HTTP server and span collector, so that the generator's container can be tested against itself.
//
//	/ok          200          /status/503   that status     /slow/250   200 after 250 ms
//	/cut         a reply that ends before its announced length
//	/login       logs the user of the form in: a cookie, and a token in JSON
//	/private     200 with that cookie and, in the header Authorization, that token, else 403
//	/bytes       the number of the body's bytes
//	/v1/traces   takes spans  /counts       what was received: requests and spans per tracestate
func serve(address string) error {
	counts := &counts{Requests: map[string]int{}, Spans: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(reply http.ResponseWriter, request *http.Request) { fmt.Fprintln(reply, `["ok"]`) })
	mux.HandleFunc("/status/{code}", func(reply http.ResponseWriter, request *http.Request) {
		code, err := strconv.Atoi(request.PathValue("code"))
		if err != nil || code < 200 || code > 599 {
			code = http.StatusBadRequest
		}
		reply.WriteHeader(code)
	})
	mux.HandleFunc("/slow/{ms}", func(reply http.ResponseWriter, request *http.Request) {
		if wait, err := time.ParseDuration(request.PathValue("ms") + "ms"); err == nil {
			time.Sleep(wait)
		}
	})
	mux.HandleFunc("/cut", func(reply http.ResponseWriter, request *http.Request) {
		reply.Header().Set("Content-Length", "100")
		fmt.Fprint(reply, "short")
	})
	mux.HandleFunc("POST /login", func(reply http.ResponseWriter, request *http.Request) {
		if user := request.FormValue("user"); user != "" && request.FormValue("password") == "secret-"+user {
			http.SetCookie(reply, &http.Cookie{Name: "session", Value: user, Path: "/", Secure: true})
			fmt.Fprintf(reply, `{"tokens": [{"value": "token-%s"}]}`, user)
			return
		}
		http.Error(reply, "wrong password", http.StatusForbidden)
	})
	mux.HandleFunc("/private", func(reply http.ResponseWriter, request *http.Request) {
		session, err := request.Cookie("session")
		if err != nil || request.Header.Get("Authorization") != "Bearer token-"+session.Value {
			http.Error(reply, "not logged in", http.StatusForbidden)
		}
	})
	mux.HandleFunc("/bytes", func(reply http.ResponseWriter, request *http.Request) {
		size, err := io.Copy(io.Discard, request.Body)
		fmt.Fprint(reply, size, err)
	})
	mux.HandleFunc("/v1/traces", counts.collect)
	mux.HandleFunc("/counts", func(reply http.ResponseWriter, request *http.Request) {
		counts.lock.Lock()
		defer counts.lock.Unlock()
		if err := json.NewEncoder(reply).Encode(counts); err != nil {
			fmt.Println("counts:", err)
		}
	})
	return http.ListenAndServe(address, http.HandlerFunc(func(reply http.ResponseWriter, request *http.Request) {
		if state := request.Header.Get("tracestate"); state != "" {
			counts.add(counts.Requests, state)
		}
		mux.ServeHTTP(reply, request)
	}))
}

type counts struct {
	lock     sync.Mutex
	Requests map[string]int `json:"requests"`
	Spans    map[string]int `json:"spans"`
}

func (counts *counts) add(to map[string]int, key string) {
	counts.lock.Lock()
	defer counts.lock.Unlock()
	to[key]++
}

func (counts *counts) collect(reply http.ResponseWriter, request *http.Request) {
	data, err := io.ReadAll(request.Body)
	var message collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(data, &message)
	}
	if err != nil {
		http.Error(reply, err.Error(), http.StatusBadRequest)
		return
	}
	for _, resource := range message.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				counts.add(counts.Spans, span.TraceState)
			}
		}
	}
}
