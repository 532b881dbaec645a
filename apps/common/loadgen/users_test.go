package loadgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// shop is a server with a log-in form as frameworks have it: a token in a hidden field and in a cookie, a session that
// changes with the log-in, a redirect, and then a token for the API.
type shop struct {
	lock     sync.Mutex
	sessions map[string]string // cookie -> who
	requests map[string]int    // who -> requests
	problems []string
	logins   int
	busy     int
	busiest  int
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", func(reply http.ResponseWriter, request *http.Request) {
		http.SetCookie(reply, &http.Cookie{Name: "csrf", Value: "c" + request.URL.Query().Get("user"), Path: "/"})
		_, _ = fmt.Fprintf(reply, `<input name="csrf" value="f%s">`, request.URL.Query().Get("user"))
	})
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("GET /token", func(reply http.ResponseWriter, request *http.Request) {
		reply.Header().Set("X-Number", "7")
		_, _ = fmt.Fprintf(reply, `{"tokens": [{"value": "t-%s"}], "expires": 36000000000000001}`, s.who(request))
	})
	mux.HandleFunc("GET /cart/{token}", func(reply http.ResponseWriter, request *http.Request) {
		who := s.who(request)
		s.lock.Lock()
		defer s.lock.Unlock()
		s.requests[who]++
		if want := "t-" + who; request.PathValue("token") != want || request.Header.Get("Authorization") != "Bearer "+want ||
			request.URL.Query().Get("n") != "7" || who == "" {
			s.problems = append(s.problems, request.URL.String()+" of "+who)
		}
	})
	return mux
}

func (s *shop) login(reply http.ResponseWriter, request *http.Request) {
	s.lock.Lock()
	s.busy++
	s.busiest = max(s.busiest, s.busy)
	s.lock.Unlock()
	time.Sleep(time.Millisecond)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.busy--
	name := request.FormValue("name")
	cookie, err := request.Cookie("csrf")
	if err != nil || cookie.Value != "c"+name || request.FormValue("csrf") != "f"+name || request.FormValue("password") != "secret"+name {
		http.Error(reply, "wrong", http.StatusForbidden)
		return
	}
	s.logins++
	session := fmt.Sprint("s", s.logins)
	s.sessions[session] = name
	http.SetCookie(reply, &http.Cookie{Name: "session", Value: session, Path: "/", Secure: true, HttpOnly: true})
	http.Redirect(reply, request, "/token", http.StatusFound)
}

func (s *shop) who(request *http.Request) string {
	cookie, err := request.Cookie("session")
	if err != nil {
		return ""
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.sessions[cookie.Value]
}

const shopWorkload = `{"kind": "workload", "version": 1, "timeout_ms": 60000,
 "variables": {"name": {"by_user": ["ann", "bob", "eve"]}},
 "users": {"count": 3, "concurrency": 2, "login": [
   {"name": "form", "path": "/login", "query": {"user": "{name}"}, "take": {"csrf": {"regex": "name=\"csrf\" value=\"([^\"]+)\""}}},
   {"name": "log in", "method": "POST", "path": "/login", "form": {"name": "{name}", "password": "secret{name}", "csrf": "{csrf}"},
    "take": {"token": {"json": "$.tokens[-1].value"}, "number": {"header": "x-number"}, "expires": {"json": "$['expires']"}}}]},
 "requests": [{"name": "cart", "weight": 1, "path": "/cart/{token}", "query": {"n": "{number}"},
   "headers": {"Authorization": "Bearer {token}"}}]}`

func TestUsersLogInAndKeepTheirCookiesAndValues(t *testing.T) {
	for name, protocol := range map[string]string{"HTTP/1.1": "http/1.1", "HTTP/2": "h2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop := &shop{sessions: map[string]string{}, requests: map[string]int{}}
			target := httptest.NewUnstartedServer(shop.handler())
			if protocol == "h2" {
				target.EnableHTTP2 = true
				target.StartTLS()
			} else {
				target.Start()
			}
			t.Cleanup(target.Close)
			document := strings.Replace(shopWorkload, `"timeout_ms"`, fmt.Sprintf(`"protocol": %q, "timeout_ms"`, protocol), 1)
			s, result, _ := runPlan(t, t.Context(), document, target.URL, nil)
			if len(result.Errors) != 0 || len(result.WarmupErrors) != 0 || len(shop.problems) != 0 {
				t.Fatalf("errors %v, problems %v", result.Errors, shop.problems)
			}
			// Users take turns: 50 requests of three users.
			if shop.requests["ann"] != 17 || shop.requests["bob"] != 17 || shop.requests["eve"] != 16 || shop.logins != 3 {
				t.Errorf("requests %v, %d log-ins", shop.requests, shop.logins)
			}
			if shop.busiest > 2 {
				t.Errorf("%d users logged in at the same time", shop.busiest)
			}
			if expires, _ := s.users[2].value("expires"); expires != "36000000000000001" {
				t.Errorf("a number lost digits: %s", expires)
			}
		})
	}
}

func TestAFailedLogInNamesStepUserAndReply(t *testing.T) {
	shop := &shop{sessions: map[string]string{}, requests: map[string]int{}}
	target := server(t, shop.handler().ServeHTTP)
	for name, test := range map[string]struct{ from, to, message string }{
		"refused":   {`"secret{name}"`, `"guess"`, `users.login[1] "log in" of user 0: status 403: "wrong\n"`},
		"not there": {`value=\"(`, `value='(`, `users.login[0] "form" of user 0: no csrf in the reply, status 200: "<input name=\"csrf\" value=\"fann\">"`},
		"elsewhere": {`"path": "/login", "query"`, `"path": "/nowhere", "query"`, `users.login[0] "form" of user 0: status 404: "404 page not found\n"`},
	} {
		document := strings.Replace(shopWorkload, test.from, test.to, 1)
		plan, workload := shortPlan(t, strings.Replace(document, `"count": 3`, `"count": 1`, 1), target.URL, false)
		_, err := Run(t.Context(), plan, workload, &Events{Writer: io.Discard})
		if err == nil || err.Error() != test.message {
			t.Errorf("%s: %v, wanted %s", name, err, test.message)
		}
	}
}

func TestTheLogInHasALimitedTime(t *testing.T) {
	target := server(t, func(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() })
	document := strings.Replace(shopWorkload, `"count": 3`, `"login_limit_s": 0.05, "count": 3`, 1)
	plan, workload := shortPlan(t, document, target.URL, false)
	_, err := Run(t.Context(), plan, workload, &Events{Writer: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "not all 3 had logged in after 50ms") {
		t.Error(err)
	}
}

// A value that no reply has delivered yet fails the request, which is not sent; it never waits.
func TestAMissingValueIsAFailureOfItsOwn(t *testing.T) {
	var lock sync.Mutex
	carts := 0
	target := server(t, func(reply http.ResponseWriter, request *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		if request.URL.Path == "/cart/9" {
			carts++
		}
		_, _ = io.WriteString(reply, `{"id": null}`)
	})
	document := `{"kind": "workload", "version": 1, "timeout_ms": 60000, "users": {"count": 2, "order": "random"}, "requests": [
	 {"name": "list", "weight": 1, "path": "/list", "take": {"id": {"json": "$.id"}}},
	 {"name": "cart", "weight": 1, "path": "/cart/{id}"}]}`
	s, result, _ := runPlan(t, t.Context(), document, target.URL, nil)
	counts := map[string]int{}
	for index := range s.requests {
		counts[result.Classes[s.requests[index].Class]]++
	}
	for _, errors := range []map[string]map[string]int{result.Errors, result.WarmupErrors} {
		counts["list"] -= errors["no id in the reply"]["list"]
		counts["cart"] -= errors["no value of id"]["cart"]
	}
	if counts["list"] != 0 || counts["cart"] != 0 || carts != 0 {
		t.Errorf("%v, %d carts, errors %v", counts, carts, result.Errors)
	}
}

func TestRedirectsAreFollowedWhereAskedFor(t *testing.T) {
	target := server(t, func(reply http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		switch request.URL.Path {
		case "/":
			http.Redirect(reply, request, "end?a=b%20c", http.StatusSeeOther)
		case "/again":
			http.Redirect(reply, request, "/end", http.StatusTemporaryRedirect)
		case "/round":
			http.Redirect(reply, request, "/round", http.StatusFound)
		case "/away":
			http.Redirect(reply, request, "http://other.example/", http.StatusFound)
		case "/host":
			http.Redirect(reply, request, "http://shop.example:80/end", http.StatusFound)
		default:
			_, _ = fmt.Fprint(reply, request.Method, request.URL, string(body))
		}
	})
	for path, test := range map[string]struct{ rest, reason string }{
		"/":      {`"expect": {"body": "^GET/end\\?a=b%20c$"}`, ""},
		"/again": {`"expect": {"body": "^POST/endsent$"}`, ""},
		"/round": {`"expect": {"status": 200}`, reasonRedirects},
		"/away":  {`"expect": {"status": 200}`, reasonElsewhere},
		"/host":  {`"headers": {"Host": "shop.example"}, "expect": {"body": "^GET/end$"}`, ""},
	} {
		document := fmt.Sprintf(`{"kind": "workload", "version": 1, "timeout_ms": 60000, "requests": [
		 {"name": "a", "weight": 1, "method": "POST", "path": %q, "body": "sent", "follow": true, %s}]}`, path, test.rest)
		s, _, _ := runPlan(t, t.Context(), document, target.URL, nil)
		for index := range s.records {
			if s.records[index].reason != test.reason {
				t.Fatalf("%s: %q, wanted %q", path, s.records[index].reason, test.reason)
			}
		}
	}
}

func TestAFileIsSentAsItIs(t *testing.T) {
	content := make([]byte, 70_000)
	for index := range content {
		content[index] = byte(index)
	}
	var lock sync.Mutex
	same := 0
	target := server(t, func(_ http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		lock.Lock()
		defer lock.Unlock()
		if err == nil && string(body) == string(content) && request.Header.Get("Content-Type") == "image/png" {
			same++
		}
	})
	document := `{"kind": "workload", "version": 1, "timeout_ms": 60000, "headers": {"content-type": "image/png"}, "requests": [
	 {"name": "a", "weight": 1, "method": "PUT", "path": "/", "body_file": "picture.png"}]}`
	data, err := json.Marshal(map[string]any{
		"workload": json.RawMessage(document), "rate_rps": 100, "arrivals": "constant", "warmup_s": 0.1, "window_s": 0.4, "seed": 1,
		"target": target.URL, "otlp_endpoint": "", "trace": false, "files": map[string][]byte{"picture.png": content},
	})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := ReadPlan(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	workload, err := plan.ReadWorkload()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), plan, workload, &Events{Writer: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if same != 50 {
		t.Errorf("%d of 50 bodies arrived", same)
	}
}

func TestAFormKeepsItsTypeWhateverTheWorkloadsHeadersSay(t *testing.T) {
	document := strings.Replace(oneClass(1000, ""), `"requests"`, `"headers": {"Content-Type": "application/json"}, "requests"`, 1)
	document = strings.Replace(document, `"path": "/"`, `"path": "/", "method": "POST", "form": {"a": "b"}`, 1)
	plan, workload := makePlan(t, document, nil)
	kinds := []string{}
	for _, header := range Schedule(plan, workload)[0].Headers {
		if header.Name == "Content-Type" {
			kinds = append(kinds, header.Value)
		}
	}
	if len(kinds) != 1 || kinds[0] != formType.Value {
		t.Errorf("the types are %v", kinds)
	}
}

func TestRandomUsersAreThoseOfTheSeed(t *testing.T) {
	document := strings.Replace(oneClass(1000, ""), `"requests"`, `"users": {"count": 10, "order": "random"}, "requests"`, 1)
	plan, workload := makePlan(t, document, nil)
	first, again := Schedule(plan, workload), Schedule(plan, workload)
	seen := map[int32]bool{}
	for index := range first {
		seen[first[index].user] = true
		if first[index].user != again[index].user {
			t.Fatal("the same seed gives other users")
		}
	}
	if len(seen) != 10 {
		t.Errorf("%d of 10 users", len(seen))
	}
}

func TestValuesAreReadFromJSON(t *testing.T) {
	for path, want := range map[string]string{
		"$": `{"a":[1,{"b c":true}],"n":null,"t":"x\"y"}`, "$.t": `x"y`, "$.a[0]": "1", "$.a[-1]['b c']": "true",
		"$.n": "", "$.a.b": "", "$.a[2]": "", "$.a[-3]": "", "$[0]": "",
	} {
		compiled, err := compileTake("v", &takeDocument{JSON: &path})
		if err != nil {
			t.Fatal(err)
		}
		value, there := compiled.from(&reply{body: []byte(`{"t": "x\"y", "a": [1, {"b c": true}], "n": null}`)})
		if value != want && (want != "" || there) || there != (want != "") {
			t.Errorf("%s: %q, %v, wanted %q", path, value, there, want)
		}
	}
}

func TestARefusalIsTold(t *testing.T) {
	if err := fmt.Errorf("a: %w", Refusal{errors.New("b")}); !errors.As(err, new(Refusal)) || err.Error() != "a: b" {
		t.Error(err)
	}
}
