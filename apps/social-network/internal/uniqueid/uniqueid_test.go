package uniqueid

import (
	"sync"
	"testing"
	"time"
)

func TestNumbersGrowThoughTheClockStandsOrGoesBack(t *testing.T) {
	clock := time.UnixMilli(1_800_000_000_000)
	generator := NewGenerator("a", func() time.Time { return clock })
	last := int64(0)
	for i := range 10_000 { // more than a millisecond's counter holds
		if i == 5_000 {
			clock = clock.Add(-time.Hour)
		}
		next := generator.Next()
		if next <= last {
			t.Fatalf("%d after %d", next, last)
		}
		last = next
	}
	clock = clock.Add(2 * time.Hour)
	if next := generator.Next(); next <= last {
		t.Errorf("%d after %d", next, last)
	}
}

func TestNumbersAreUniqueAcrossGoroutines(t *testing.T) {
	generator := NewGenerator("a", time.Now)
	const goroutines, each = 8, 1000
	lists := make([][]int64, goroutines)
	var all sync.WaitGroup
	for i := range lists {
		all.Go(func() {
			for range each {
				lists[i] = append(lists[i], generator.Next())
			}
		})
	}
	all.Wait()
	seen := map[int64]bool{}
	for _, list := range lists {
		for _, number := range list {
			if seen[number] {
				t.Fatalf("%d twice", number)
			}
			seen[number] = true
		}
	}
}

func TestMachinesDiffer(t *testing.T) {
	now := func() time.Time { return time.UnixMilli(1_800_000_000_000) }
	if NewGenerator("unique-id", now).Next() == NewGenerator("media", now).Next() {
		t.Error("two machines gave the same number")
	}
}
