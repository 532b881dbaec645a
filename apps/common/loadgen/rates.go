package loadgen

import (
	"fmt"
	"math"
	"sort"
)

// Point of a profile: the rate at a moment, counted from the start of the window.
type Point struct {
	AtS     float64 `json:"at_s"`
	RateRPS float64 `json:"rate_rps"`
}

const maxPoints = 100_000

func checkProfile(profile []Point) error {
	if len(profile) > maxPoints {
		return fmt.Errorf("profile: found %d points; allowed: at most %d", len(profile), maxPoints)
	}
	for index, point := range profile {
		if !(point.AtS >= 0) || math.IsInf(point.AtS, 0) {
			return fmt.Errorf("profile: point %d: at_s: found %v; allowed: 0 or more", index, point.AtS)
		}
		if index > 0 && point.AtS < profile[index-1].AtS {
			return fmt.Errorf("profile: point %d: at_s: found %v; allowed: at least %v, that of the point before", index, point.AtS, profile[index-1].AtS)
		}
		if !(point.RateRPS >= 0) || math.IsInf(point.RateRPS, 0) {
			return fmt.Errorf("profile: point %d: rate_rps: found %v; allowed: 0 or more", index, point.RateRPS)
		}
	}
	return nil
}

// rates is the rate over the whole run: stretches on which it is linear, without a gap, and the requests due before each.
type rates struct {
	stretches []stretch
	total     float64 // expected requests of the run
}

type stretch struct {
	from, length float64 // seconds, from the start of the warm-up
	rate, slope  float64 // requests/s at from, and its change in a second
	before       float64 // expected requests before from
}

// newRates is linear between the points of a profile, constant before the first and after the last.  Two points at one
// moment are a jump.  The warm-up therefore runs at the first point's rate.
func newRates(profile []Point, warmup, window float64) *rates {
	r := &rates{}
	first, last := profile[0], profile[len(profile)-1]
	r.add(-warmup, min(first.AtS, window), first.RateRPS, first.RateRPS, warmup)
	for index := range profile[1:] {
		left, right := profile[index], profile[index+1]
		if left.AtS >= window {
			break
		}
		until, rate := right.AtS, right.RateRPS
		if until > window {
			rate = left.RateRPS + (right.RateRPS-left.RateRPS)*(window-left.AtS)/(right.AtS-left.AtS)
			until = window
		}
		r.add(left.AtS, until, left.RateRPS, rate, warmup)
	}
	r.add(last.AtS, window, last.RateRPS, last.RateRPS, warmup)
	return r
}

// add appends a stretch between two moments of the window; one without a length is left out.
func (r *rates) add(from, until, rate, end, warmup float64) {
	length := until - from
	if !(length > 0) {
		return
	}
	r.stretches = append(r.stretches, stretch{from + warmup, length, rate, (end - rate) / length, r.total})
	r.total += (rate + end) / 2 * length
}

// when is the first moment at which more than count requests are expected to have come, in seconds from the start of the
// warm-up: the inverse of the cumulative rate.  It is infinite from the run's total on.
func (r *rates) when(count float64) float64 {
	if count >= r.total {
		return math.Inf(1)
	}
	// The last stretch before which no more than count have come; stretches in which none come are passed over.
	index := sort.Search(len(r.stretches), func(index int) bool { return r.stretches[index].before > count }) - 1
	p := r.stretches[index]
	more := count - p.before
	if more <= 0 {
		return p.from
	}
	// more = rate x + slope x^2 / 2, solved in the form that loses no digits where the slope is near 0.
	root := math.Sqrt(max(p.rate*p.rate+2*p.slope*more, 0))
	return p.from + min(2*more/(p.rate+root), p.length)
}
