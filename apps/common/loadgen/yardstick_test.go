package loadgen

import (
	"testing"
	"time"
)

func ticked(t *testing.T, from, until time.Duration, stop chan struct{}) *Yardstick {
	t.Helper()
	y, err := newYardstick()
	if err != nil {
		t.Fatal(err)
	}
	defer y.close()
	now := time.Now()
	y.run(now.Add(from), now.Add(until), stop)
	return y.found
}

func TestATickTakesProcessorTime(t *testing.T) {
	found := ticked(t, 0, 500*tickPeriod, make(chan struct{}))
	if found == nil || found.Ticks < 1 || found.Ticks > 501 || found.TickUS <= 0 {
		t.Errorf("found %+v", found)
	}
}

func TestOnlyTheWindowsTicksCount(t *testing.T) {
	if found := ticked(t, time.Hour, 5*tickPeriod, make(chan struct{})); found != nil {
		t.Errorf("%d ticks before the window", found.Ticks)
	}
}

func TestTheYardstickStops(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	if found := ticked(t, 0, time.Hour, stop); found != nil {
		t.Errorf("%d ticks of a window that was broken off", found.Ticks)
	}
}
