package loadgen

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// day is quiet, rises to a peak, falls, jumps, and pauses.
var day = []Point{{0, 100}, {100, 100}, {200, 500}, {300, 200}, {300, 50}, {400, 0}, {450, 0}, {500, 300}}

func profiled(t *testing.T, arrivals string, profile []Point, seed uint64) []time.Duration {
	t.Helper()
	plan, _ := makePlan(t, socialWorkload, func(plan *Plan) {
		plan.RateRPS, plan.Profile, plan.Arrivals, plan.Seed, plan.WarmupS, plan.WindowS = 0, profile, arrivals, seed, 10, 600
	})
	return dues(plan)
}

// within counts the requests due in [from, until) seconds of the window, which begins 10 s after the first moment.
func within(dues []time.Duration, from, until float64) int {
	first, _ := slices.BinarySearch(dues, seconds(from+10))
	last, _ := slices.BinarySearch(dues, seconds(until+10))
	return last - first
}

// Counts of a Poisson process in spans that do not overlap are independent and Poisson, so the sum of (n - m)^2 / m over
// spans is chi-squared.  Of ten seeds the sum has 10 times the spans' number of degrees of freedom.
func TestPoissonArrivalsFollowTheProfile(t *testing.T) {
	spans := []struct{ from, until, expected float64 }{
		{-10, 0, 1000}, {0, 100, 10_000}, {100, 150, 10_000}, {150, 200, 20_000}, {200, 300, 35_000}, {300, 350, 1875},
		{350, 400, 625}, {450, 475, 1875}, {475, 500, 5625}, {500, 600, 30_000},
	}
	sum, freedom := 0.0, 0.0
	for seed := range uint64(10) {
		found := profiled(t, "poisson", day, seed)
		if !slices.IsSorted(found) {
			t.Fatal("arrivals are not in order")
		}
		if count := within(found, 400, 450); count != 0 {
			t.Errorf("%d requests while the rate is 0", count)
		}
		for _, span := range spans {
			deviation := float64(within(found, span.from, span.until)) - span.expected
			sum += deviation * deviation / span.expected
			freedom++
		}
	}
	// Mean freedom, variance 2 freedom: 100 +- 4 * 14.1; the seeds are fixed.
	if math.Abs(sum-freedom) > 4*math.Sqrt(2*freedom) {
		t.Errorf("chi-squared %v of %v degrees of freedom", sum, freedom)
	}
}

func TestConstantArrivalsAreEvenInTheCumulativeRate(t *testing.T) {
	found := profiled(t, "constant", day, 1)
	for _, span := range []struct {
		until    float64
		expected int
	}{{0, 1000}, {100, 11_000}, {150, 21_000}, {200, 41_000}, {300, 76_000}, {400, 78_500}, {450, 78_500}, {500, 86_000}, {600, 116_000}} {
		if count := within(found, -10, span.until); count < span.expected || count > span.expected+1 {
			t.Errorf("%d requests by %v s, expected %d", count, span.until, span.expected)
		}
	}
	if found[0] != 0 || found[1] != 10*time.Millisecond {
		t.Errorf("the first requests are due at %v and %v", found[0], found[1])
	}
}

func TestAProfileOfOneRateIsThatRate(t *testing.T) {
	for _, arrivals := range []string{"poisson", "constant"} {
		plan, _ := makePlan(t, socialWorkload, func(plan *Plan) {
			plan.Arrivals, plan.Seed, plan.WarmupS, plan.WindowS = arrivals, 7, 10, 600
		})
		constant, flat := dues(plan), profiled(t, arrivals, []Point{{20, 200}, {30, 200}, {700, 200}}, 7)
		if len(constant) != len(flat) {
			t.Fatalf("%s: %d and %d requests", arrivals, len(constant), len(flat))
		}
		for index := range constant {
			if difference := constant[index] - flat[index]; difference.Abs() > time.Microsecond {
				t.Fatalf("%s: request %d: %v and %v", arrivals, index, constant[index], flat[index])
			}
		}
	}
}

func TestProfilesBeyondTheWindowAreCut(t *testing.T) {
	rates := newRates([]Point{{0, 0}, {100, 100}}, 5, 10)
	if math.Abs(rates.total-50) > 1e-9 {
		t.Errorf("%v requests; the rate rises to 10 in 10 s", rates.total)
	}
	for _, count := range []float64{0, 1, 12.5, 49.999} {
		at := rates.when(count) - 5 // half of its square is the count
		if math.Abs(at*at/2-count) > 1e-9 {
			t.Errorf("%v requests by %v s", count, at)
		}
	}
	if !math.IsInf(rates.when(50), 1) {
		t.Error("more requests come than there are")
	}
	if late := newRates([]Point{{50, 3}, {60, 9}}, 5, 10); late.total != 45 || len(late.stretches) != 1 {
		t.Errorf("%+v", late)
	}
}

func TestContentsDoNotDependOnTheProfile(t *testing.T) {
	slow := social(t, nil)
	other := social(t, func(plan *Plan) { plan.RateRPS, plan.Profile = 0, []Point{{0, 10}, {5, 600}, {9, 10}} })
	for index := range min(len(slow), len(other)) {
		slow[index].Due, other[index].Due = 0, 0
		if !reflect.DeepEqual(slow[index], other[index]) {
			t.Fatalf("request %d differs: %v, %v", index, slow[index], other[index])
		}
	}
	if len(other) < 1000 {
		t.Errorf("%d requests", len(other))
	}
}

func TestPlansWithAProfileAreChecked(t *testing.T) {
	good := func(change func(*Plan)) error {
		plan := &Plan{Arrivals: "poisson", WindowS: 10, Target: "http://a", Profile: []Point{{0, 1}, {5, 2}}, LiveMS: 100, Forget: true}
		change(plan)
		return plan.check()
	}
	if err := good(func(*Plan) {}); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Plan){
		"rate_rps: found 5 with a profile; allowed: 0":     func(plan *Plan) { plan.RateRPS = 5 },
		"rate_rps: found 0; allowed: a number above 0":     func(plan *Plan) { plan.Profile = nil },
		"point 1: at_s: found 5; allowed: at least 6":      func(plan *Plan) { plan.Profile[0].AtS = 6 },
		"point 0: at_s: found -1; allowed: 0 or more":      func(plan *Plan) { plan.Profile[0].AtS = -1 },
		"point 1: rate_rps: found NaN; allowed: 0 or more": func(plan *Plan) { plan.Profile[1].RateRPS = math.NaN() },
		"found no request in the whole run":                func(plan *Plan) { plan.Profile = []Point{{0, 0}, {20, 0}, {30, 5}} },
		"about 20000000000 requests; allowed: at most 1000000000": func(plan *Plan) {
			plan.Profile = []Point{{0, 2e9}}
		},
		"about 10000000 requests; allowed: at most 5000000": func(plan *Plan) {
			plan.Profile, plan.Forget = []Point{{0, 1e6}}, false
		},
		"live_ms: found -1; allowed: 0 to 60000": func(plan *Plan) { plan.LiveMS = -1 },
		"forget: found true with trace":          func(plan *Plan) { plan.Trace = true },
	} {
		if err := good(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, wanted %s", err, want)
		}
	}
}
