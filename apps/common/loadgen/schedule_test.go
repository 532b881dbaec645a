package loadgen

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

const socialWorkload = `{"kind": "workload", "version": 1, "timeout_ms": 5000,
 "variables": {
  "user": {"uniform": [1, 1000]}, "start": {"uniform": [0, 100]}, "kind": {"choice": ["png", "jpg"]},
  "hot": {"zipf": {"low": 10, "high": 19, "s": 1.0}},
  "text": {"text": {"characters": 256, "repeat": [{"times": [2, 5], "value": " @username_{user}"},
                                                  {"times": [0, 3], "value": " http://{word:64}"}]}}},
 "requests": [
  {"name": "compose", "weight": 10, "method": "POST", "path": "/compose/{kind}",
   "form": {"username": "username_{user}", "user_id": "{user}", "text": "{text}", "number": "{seq}"}},
  {"name": "read", "weight": 30, "path": "/read", "query": {"user_id": "{hot}", "start": "{start}", "stop": "{start+10}"},
   "headers": {"X-Kind": "{kind}"}},
  {"name": "raw", "weight": 10, "method": "PUT", "path": "/raw", "body": "{{\"user\": {user-1}}}"}]}`

func makePlan(t *testing.T, document string, change func(*Plan)) (*Plan, *Workload) {
	t.Helper()
	plan := &Plan{Workload: []byte(document), RateRPS: 200, Arrivals: "poisson", WarmupS: 1, WindowS: 9, Seed: 42,
		Target: "http://service:8080"}
	if change != nil {
		change(plan)
	}
	if err := plan.check(); err != nil {
		t.Fatal(err)
	}
	workload, err := plan.ReadWorkload()
	if err != nil {
		t.Fatal(err)
	}
	return plan, workload
}

func social(t *testing.T, change func(*Plan)) []Request {
	plan, workload := makePlan(t, socialWorkload, change)
	return Schedule(plan, workload)
}

// dues is when all requests of a plan are due.
func dues(plan *Plan) []time.Duration {
	var all []time.Duration
	arrivals := newArrivals(plan)
	for due, more := arrivals.next(); more; due, more = arrivals.next() {
		all = append(all, due)
	}
	return all
}

func TestSameSeedSameSchedule(t *testing.T) {
	first, again := social(t, nil), social(t, nil)
	if !reflect.DeepEqual(first, again) {
		t.Error("two schedules of the same plan differ")
	}
	other := social(t, func(plan *Plan) { plan.Seed = 43 })
	if first[0].Due == other[0].Due || first[0].Path+first[0].Body == other[0].Path+other[0].Body {
		t.Error("another seed gives the same first request")
	}
}

// Results of different days are compared request by request, so the schedule of a seed must never change: neither
// with this code nor with the version of Go.
func TestScheduleIsTheOneThatWasRecorded(t *testing.T) {
	sum := sha256.New()
	for _, request := range social(t, nil) {
		fmt.Fprintln(sum, request.Due.Nanoseconds(), request.Class, request.Path, request.Body, request.Headers)
	}
	const recorded = "46722b2f71ce121a67df8a39e885b4bd62c6e31510ce3ac72f60776058bd2a24"
	if found := hex.EncodeToString(sum.Sum(nil)); found != recorded {
		t.Errorf("found %s, recorded %s", found, recorded)
	}
}

func TestContentsDoNotDependOnRateAndArrivals(t *testing.T) {
	slow := social(t, nil)
	fast := social(t, func(plan *Plan) { plan.RateRPS, plan.Arrivals = 400, "constant" })
	for index := range slow {
		slow[index].Due, fast[index].Due = 0, 0
		if !reflect.DeepEqual(slow[index], fast[index]) {
			t.Fatalf("request %d differs: %v, %v", index, slow[index], fast[index])
		}
	}
}

func TestPoissonGapsHaveMeanAndVarianceOfTheRate(t *testing.T) {
	plan, _ := makePlan(t, socialWorkload, func(plan *Plan) { plan.WindowS, plan.WarmupS = 500, 0 })
	dues := dues(plan)
	var sum, squares float64
	for index := 1; index < len(dues); index++ {
		gap := (dues[index] - dues[index-1]).Seconds()
		if gap < 0 {
			t.Fatal("arrivals are not in order")
		}
		sum += gap
		squares += gap * gap
	}
	count := float64(len(dues) - 1)
	mean := sum / count
	deviation := math.Sqrt(squares/count - mean*mean)
	// 100,000 gaps: the mean's standard error is 0.3 %, the deviation's 0.7 %; the seed is fixed.
	if math.Abs(mean*200-1) > 0.01 || math.Abs(deviation*200-1) > 0.02 {
		t.Errorf("mean %v, standard deviation %v; both should be near 0.005", mean, deviation)
	}
	if last := dues[len(dues)-1]; last >= 500*time.Second {
		t.Errorf("a request is due at %v, after the window", last)
	}
}

func TestConstantArrivals(t *testing.T) {
	requests := social(t, func(plan *Plan) { plan.Arrivals, plan.RateRPS = "constant", 100 })
	if len(requests) != 1000 {
		t.Fatalf("%d requests in 10 s at 100/s", len(requests))
	}
	for index, request := range requests {
		if request.Due != time.Duration(index)*10*time.Millisecond {
			t.Fatalf("request %d is due at %v", index, request.Due)
		}
	}
}

func TestMixFollowsTheWeights(t *testing.T) {
	counts := [3]float64{}
	requests := social(t, func(plan *Plan) { plan.WindowS = 199 })
	for _, request := range requests {
		counts[request.Class]++
	}
	for class, want := range []float64{0.2, 0.6, 0.2} {
		if share := counts[class] / float64(len(requests)); math.Abs(share-want) > 0.01 {
			t.Errorf("class %d: share %v, want %v", class, share, want)
		}
	}
}

func TestRequestsHoldWhatTheWorkloadSays(t *testing.T) {
	mention, link := regexp.MustCompile(`@username_([0-9]+)`), regexp.MustCompile(`http://([a-zA-Z0-9]{64})(?: |$)`)
	anew := false
	for index, request := range social(t, nil) {
		address, err := url.Parse(request.Path)
		if err != nil {
			t.Fatal(err)
		}
		switch request.Class {
		case 0:
			form, err := url.ParseQuery(request.Body)
			if err != nil {
				t.Fatal(err)
			}
			if form.Get("username") != "username_"+form.Get("user_id") || form.Get("number") != fmt.Sprint(index) {
				t.Fatalf("form %v of request %d", form, index)
			}
			mentions := mention.FindAllStringSubmatch(form.Get("text"), -1)
			if len(mentions) < 2 || len(mentions) > 5 || len(link.FindAllString(form.Get("text"), -1)) > 3 {
				t.Fatalf("text %q", form.Get("text"))
			}
			anew = anew || mentions[0][1] != mentions[1][1]
			if !strings.HasPrefix(address.Path, "/compose/png") && !strings.HasPrefix(address.Path, "/compose/jpg") {
				t.Fatalf("path %q", address.Path)
			}
		case 1:
			var start, stop, user int
			query := address.Query()
			if _, err := fmt.Sscan(query.Get("start"), &start); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscan(query.Get("stop")+" "+query.Get("user_id"), &stop, &user); err != nil {
				t.Fatal(err)
			}
			if stop != start+10 || user < 10 || user > 19 || len(request.Headers) != 1 {
				t.Fatalf("request %+v", request)
			}
		case 2:
			if !regexp.MustCompile(`^\{"user": [0-9]+\}$`).MatchString(request.Body) {
				t.Fatalf("body %q", request.Body)
			}
		}
	}
	if !anew {
		t.Error("variables in a repeat are not drawn anew")
	}
}

func TestZipfProbabilities(t *testing.T) {
	drawn, counts := newZipf(1, 4, 1), map[string]float64{}
	scope := &scope{random: rand.New(rand.NewPCG(1, 1))}
	const draws = 100_000
	for range draws {
		counts[drawn.draw(scope)]++
	}
	for rank := 1; rank <= 4; rank++ {
		want := 1 / float64(rank) / (1 + 1./2 + 1./3 + 1./4)
		if share := counts[fmt.Sprint(rank)] / draws; math.Abs(share-want) > 0.005 {
			t.Errorf("%d: share %v, want %v", rank, share, want)
		}
	}
}
