package loadgen

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

// grpcServer serves gRPC's health service, with one known service "shop", and returns its target.
func grpcServer(t *testing.T, secure, reflected bool, seen func(context.Context)) string {
	t.Helper()
	options := []grpc.ServerOption{grpc.UnaryInterceptor(
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if seen != nil {
				seen(ctx)
			}
			return handler(ctx, request)
		})}
	target := "http://"
	if secure {
		target = "https://"
		withCertificate := httptest.NewTLSServer(nil)
		certificates := withCertificate.TLS.Certificates
		withCertificate.Close()
		options = append(options, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12})))
	}
	served := grpc.NewServer(options...)
	known := health.NewServer()
	known.SetServingStatus("shop", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(served, known)
	if reflected {
		reflection.Register(served)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = served.Serve(listener) }() // ends with Stop
	t.Cleanup(served.Stop)
	return target + listener.Addr().String()
}

const healthWorkload = `{"kind": "workload", "version": 1, "timeout_ms": 60000,
 "users": {"count": 2, "login": [{"name": "ask", "grpc": {"method": "grpc.health.v1.Health/Check", "message": {"service": "shop"}},
   "take": {"state": {"json": "$.status"}}}]},
 "requests": [
  {"name": "shop", "weight": 1, "grpc": {"method": "grpc.health.v1.Health/Check", "message": {"service": "shop"},
   "metadata": {"x-state": "{state}", "x-number": "{user_number}"}}, "expect": {"body": "\"NOT_SERVING\""}},
  {"name": "unknown", "weight": 1, "grpc": {"method": "grpc.health.v1.Health/Check", "message": {"service": "s{seq}"}}},
  {"name": "wanted", "weight": 1, "grpc": {"method": "grpc.health.v1.Health/Check", "message": {"service": "{state}"}},
   "expect": {"code": "NOT_FOUND"}}]}`

func TestCallsOfGRPC(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint(secure), func(t *testing.T) {
			t.Parallel()
			var lock sync.Mutex
			states, parents := map[string]int{}, map[string]bool{}
			target := grpcServer(t, secure, true, func(ctx context.Context) {
				given, _ := metadata.FromIncomingContext(ctx)
				lock.Lock()
				defer lock.Unlock()
				if state := given.Get("x-state"); len(state) > 0 {
					states[state[0]+given.Get("x-number")[0]]++
				}
				parents[given.Get("traceparent")[0]] = true
			})
			s, result, _ := runPlan(t, t.Context(), healthWorkload, target, nil)
			classes := map[string]int{}
			for index := range s.requests {
				name := result.Classes[s.requests[index].Class]
				classes[name]++
				if s.records[index].status != 200 {
					t.Errorf("request %d: status %d", index, s.records[index].status)
				}
				if (s.records[index].reason == "grpc NOT_FOUND") != (name == "unknown") {
					t.Errorf("%s: %q", name, s.records[index].reason)
				}
			}
			if len(classes) != 3 || states["NOT_SERVING0"]+states["NOT_SERVING1"] != classes["shop"] || len(states) != 2 {
				t.Errorf("classes %v, states %v", classes, states)
			}
			if len(parents) != 52 { // those of the log-in too
				t.Errorf("%d traces", len(parents))
			}
		})
	}
}

func TestDescriptorsOfAFile(t *testing.T) {
	file := protodesc.ToFileDescriptorProto(grpc_health_v1.File_grpc_health_v1_health_proto)
	data, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}})
	if err != nil {
		t.Fatal(err)
	}
	target := grpcServer(t, false, false, nil)
	document := strings.Replace(healthWorkload, `"timeout_ms"`, `"descriptors": "health.pb", "timeout_ms"`, 1)
	plan, _ := shortPlan(t, oneClass(1000, ""), target, false)
	workload, err := ReadWorkload([]byte(document), map[string][]byte{"health.pb": data})
	if err != nil {
		t.Fatal(err)
	}
	result, err := Run(t.Context(), plan, workload, &Events{Writer: io.Discard})
	if err != nil || len(result.Errors) != 1 || len(result.Errors["grpc NOT_FOUND"]) != 1 {
		t.Errorf("%v, %+v", err, result)
	}
}

// A fault that only the server or the descriptors can tell is the plan's, not the run's.
func TestWhatCannotBeCalledIsRefused(t *testing.T) {
	target, silent := grpcServer(t, false, true, nil), grpcServer(t, false, false, nil)
	for name, test := range map[string]struct{ target, call, message string }{
		"stream":        {target, `{"method": "grpc.health.v1.Health/Watch"}`, "is a stream; allowed: unary methods"},
		"method":        {target, `{"method": "grpc.health.v1.Health/Chek"}`, "has no method Chek; it has [Check List Watch]"},
		"service":       {target, `{"method": "shop.Cart/Get"}`, "shop.Cart"},
		"field":         {target, `{"method": "grpc.health.v1.Health/Check", "message": {"servise": "a"}}`, "servise"},
		"no reflection": {silent, `{"method": "grpc.health.v1.Health/Check"}`, "allowed: `descriptors: FILE`"},
	} {
		document := fmt.Sprintf(`{"kind": "workload", "version": 1, "timeout_ms": 10000, "requests": [{"name": "a", "weight": 1, "grpc": %s}]}`, test.call)
		plan, workload := shortPlan(t, document, test.target, false)
		_, err := Run(t.Context(), plan, workload, &Events{Writer: io.Discard})
		if err == nil || !errors.As(err, new(Refusal)) || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnencryptedHTTP2(t *testing.T) {
	var lock sync.Mutex
	seen := map[string]bool{}
	connections := map[string]bool{}
	target := httptest.NewUnstartedServer(http.HandlerFunc(func(reply http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		lock.Lock()
		defer lock.Unlock()
		connections[request.RemoteAddr] = true
		number := request.Header.Get("X-Number")
		request.Header.Del("X-Number")
		seen[fmt.Sprintln(request.Proto, request.Method, request.URL, request.Host, string(body), request.ContentLength, number,
			len(request.Header["Traceparent"]), request.Header["User-Agent"], len(request.Header))] = true
	}))
	target.Config.Protocols = new(http.Protocols)
	target.Config.Protocols.SetUnencryptedHTTP2(true)
	target.Start()
	t.Cleanup(target.Close)
	document := `{"kind": "workload", "version": 1, "timeout_ms": 60000, "protocol": "h2c", "connections": 2, "requests": [
	 {"name": "a", "weight": 1, "method": "PUT", "path": "/a b/{seq}", "query": {"q": "x&y"}, "body": "text", "headers": {"host": "other", "x-number": "{seq}"}},
	 {"name": "b", "weight": 1, "path": "/"}]}`
	s, result, _ := runPlan(t, t.Context(), document, target.URL+"/base", nil)
	if len(result.Errors)+len(result.WarmupErrors) != 0 {
		t.Fatal(result.Errors, result.WarmupErrors)
	}
	wanted := map[string]bool{}
	for index := range s.requests {
		if s.requests[index].Class == 1 {
			wanted[fmt.Sprintln("HTTP/2.0 GET /base/", strings.TrimPrefix(target.URL, "http://"), "", 0, "", 1, "[tailor-loadgen]", 3)] = true
		} else {
			wanted[fmt.Sprintf("HTTP/2.0 PUT /base/a%%20b/%d?q=x%%26y other text 4 %d 1 [tailor-loadgen] 4\n", index, index)] = true
		}
	}
	if !maps.Equal(seen, wanted) {
		t.Errorf("arrived %v, wanted %v", seen, wanted)
	}
	if len(connections) == len(seen) { // at most two, unless the machine is too slow to open one in 10 ms
		t.Errorf("%d connections", len(connections))
	}
}

func TestFailuresOverHTTP2AreClassified(t *testing.T) {
	target := httptest.NewUnstartedServer(http.HandlerFunc(func(reply http.ResponseWriter, request *http.Request) {
		switch request.URL.Path {
		case "/reset":
			panic(http.ErrAbortHandler)
		case "/cut":
			_, _ = io.WriteString(reply, "begun")
			reply.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/slow":
			<-request.Context().Done()
		default:
			reply.WriteHeader(http.StatusTeapot)
		}
	}))
	target.Config.Protocols = new(http.Protocols)
	target.Config.Protocols.SetUnencryptedHTTP2(true)
	target.Start()
	t.Cleanup(target.Close)
	closed := httptest.NewServer(nil)
	closed.Close()
	for path, reason := range map[string]string{
		"/reset": reasonStream, "/cut": reasonStream, "/slow": reasonTimeout, "/pot": "status 418", "/closed": reasonRefused,
	} {
		timeout, address := 60_000, target.URL
		if reason == reasonTimeout {
			timeout = 50
		} else if reason == reasonRefused {
			address = closed.URL
		}
		document := strings.Replace(oneClass(timeout, ""), `"path": "/"`, fmt.Sprintf(`"path": %q`, path), 1)
		_, result, _ := runPlan(t, t.Context(), strings.Replace(document, `"requests"`, `"protocol": "h2c", "requests"`, 1), address, nil)
		if result.Errors[reason]["a"] != 40 {
			t.Errorf("%s: %v", path, result.Errors)
		}
	}
}

func TestAServerWithoutHTTP2(t *testing.T) {
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	quiet := log.New(io.Discard, "", 0)
	refusing := httptest.NewUnstartedServer(nothing) // offers HTTP/1.1 only
	refusing.Config.ErrorLog = quiet
	refusing.StartTLS()
	t.Cleanup(refusing.Close)
	ignorant := httptest.NewUnstartedServer(nothing) // does not know of offers
	ignorant.Config.ErrorLog = quiet
	ignorant.Listener = tls.NewListener(ignorant.Listener, &tls.Config{Certificates: refusing.TLS.Certificates, MinVersion: tls.VersionTLS12})
	ignorant.Start()
	t.Cleanup(ignorant.Close)
	for _, target := range []string{refusing.URL, strings.Replace(ignorant.URL, "http:", "https:", 1)} {
		document := strings.Replace(oneClass(60_000, ""), `"requests"`, `"protocol": "h2", "requests"`, 1)
		_, result, _ := runPlan(t, t.Context(), document, target, nil)
		if result.Errors[reasonNotHTTP2]["a"] != 40 {
			t.Errorf("%v", result.Errors)
		}
	}
}

// A server that allows one stream for each connection gets more connections: no request waits for another's reply.
func TestALimitOfStreamsDelaysNothing(t *testing.T) {
	var lock sync.Mutex
	arrived, release := 0, make(chan struct{})
	target := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		lock.Lock()
		if arrived++; arrived == 50 {
			close(release)
		}
		lock.Unlock()
		<-release
	}))
	target.Config.Protocols = new(http.Protocols)
	target.Config.Protocols.SetUnencryptedHTTP2(true)
	target.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1}
	target.Start()
	t.Cleanup(target.Close)
	document := strings.Replace(oneClass(10_000, ""), `"requests"`, `"protocol": "h2c", "requests"`, 1)
	_, result, _ := runPlan(t, t.Context(), document, target.URL, nil)
	if len(result.Errors) != 0 {
		t.Errorf("%v", result.Errors)
	}
}

func TestMessagesKeepTheirNumbers(t *testing.T) {
	call, err := compileCall(&grpcDocument{Method: "a.B/C", Message: json.RawMessage(`{"z": 36000000000000001, "a": ["{n}", true, null]}`)},
		map[string]variable{"n": uniform{5, 5}})
	if err != nil {
		t.Fatal(err)
	}
	if text := call.text(&scope{random: nil, values: map[string]string{"n": "5"}}); text != `{"a":["5",true,null],"z":36000000000000001}` {
		t.Error(text)
	}
}
