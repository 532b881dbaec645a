package latency

import (
	"math"
	"testing"
	"time"
)

func TestASummaryIsOfWhatWasRecorded(t *testing.T) {
	first, second := New(time.Second, 3), New(time.Second, 3)
	if first.Summary() != nil {
		t.Error("a summary of nothing")
	}
	for number := range 1000 {
		first.Record(time.Duration(number+1)*10*time.Microsecond, 2)
	}
	second.Record(time.Minute, 10) // more than it keeps
	second.Record(-time.Minute, 10)
	first.Add(second)
	told := first.Summary()
	if told.Count != 2020 || first.Count() != told.Count {
		t.Errorf("%d recorded", told.Count)
	}
	for name, pair := range map[string][2]float64{
		"median": {told.P50US, 5000}, "p95": {told.P95US, 9550}, "p99": {told.P99US, 9950}, "p99.9": {told.P999US, 1e6},
		"largest": {told.MaxUS, 1e6}, "mean": {told.MeanUS, (2*500500*10 + 10*1e6) / 2020},
	} {
		if math.Abs(pair[0]-pair[1]) > 0.01*pair[1] {
			t.Errorf("%s is %v us, wanted %v", name, pair[0], pair[1])
		}
	}
}
