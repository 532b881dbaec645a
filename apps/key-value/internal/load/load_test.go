package load

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/server"
)

// start is a server of ours with room for so many records.
func start(t *testing.T, records int) string {
	t.Helper()
	return startWith(t, records, func(*server.Server) {})
}

// startWith calls asked when the server is asked for its state; the connections of its other thread go on meanwhile.
func startWith(t *testing.T, records int, asked func(answering *server.Server)) string {
	t.Helper()
	var started atomic.Pointer[server.Server]
	table, err := engines.Open(t.Context(), "table", engines.Options{Records: records, Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	address := "unix:" + filepath.Join(t.TempDir(), "s")
	answering, err := server.Start(table, server.Options{
		Address: address, Threads: 2, Batch: 8, Buffer: 16 << 10,
		Stats: func() []byte {
			asked(started.Load())
			return []byte(`{"cpu_seconds": 1, "engine": {"records": 9}}`)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	started.Store(answering)
	t.Cleanup(func() {
		_ = answering.Close()
		_ = table.Close()
	})
	return address
}

func plan(address string) Plan {
	return Plan{
		Address: address, Protocol: "native", Connections: 4, Threads: 2, Depth: 3, Batch: 2, GetShare: 0.7, Keys: 500,
		Fill: true, Internal: true, Verify: true, Window: 50 * time.Millisecond, Seed: 1,
	}
}

func TestAClosedLoopFindsWhatItStored(t *testing.T) {
	p := plan(start(t, 1000))
	p.Log = filepath.Join(t.TempDir(), "log")
	begin := time.Now()
	result, err := Run(p)
	if err != nil {
		t.Fatal(err)
	}
	if result.Gets == 0 || result.Puts == 0 || result.Misses+result.Wrong+result.Refused+result.Unanswered > 0 {
		t.Errorf("%+v", result)
	}
	if result.GetInternalLatency == nil || result.PutInternalLatency == nil || result.GetLatency.Count == 0 ||
		result.GetInternalLatency.MeanUS > result.GetLatency.MeanUS || result.ServerRecords != 9 {
		t.Errorf("latencies %+v, internal %+v", result.GetLatency, result.GetInternalLatency)
	}
	checkLog(t, p.Log, begin, "200")
}

// checkLog reads a line for each burst.
func checkLog(t *testing.T, path string, begin time.Time, status string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) < 5 {
		t.Fatalf("log %q", text)
	}
	for _, line := range lines {
		fields := strings.Split(line, "\t")
		at, err := strconv.ParseInt(fields[0], 10, 64)
		took, tookErr := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || tookErr != nil || at < begin.UnixMicro() || fields[1] != status ||
			at+took > time.Now().UnixMicro() {
			t.Fatalf("line %q", line)
		}
	}
}

func TestKeysThatAreNotThereAreMisses(t *testing.T) {
	p := plan(start(t, 1000))
	p.Fill, p.GetShare = false, 1
	p.Log = filepath.Join(t.TempDir(), "log")
	begin := time.Now()
	result, err := Run(p)
	if err != nil || result.Misses != result.Gets || result.Gets == 0 {
		t.Errorf("%+v, %v", result, err)
	}
	checkLog(t, p.Log, begin, "404")
}

func TestAFullServerIsSaid(t *testing.T) {
	p := plan(start(t, 100))
	if _, err := Run(p); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("error %v", err)
	}
}

// TestRefusedPutsAreNotDone: of a server that has room for one record, nearly none is.
func TestRefusedPutsAreNotDone(t *testing.T) {
	p := plan(start(t, 1))
	p.Fill, p.GetShare = false, 0
	result, err := Run(p)
	if err != nil || result.Refused == 0 || result.Refusal == "" || result.Puts > result.Refused/10 {
		t.Errorf("%+v, %v", result, err)
	}
	if latency := result.PutLatency; latency != nil && latency.Count > result.Refused/10 {
		t.Errorf("%d of %d refused puts have a latency", latency.Count, result.Refused)
	}
}

// TestTheLoadGoesOnUntilItsEndWasLookedAt, however long a server takes to tell its state.
func TestTheLoadGoesOnUntilItsEndWasLookedAt(t *testing.T) {
	times := 0
	var goesOn atomic.Bool
	p := plan(startWith(t, 1000, func(answering *server.Server) {
		if times++; times != 2 { // the end of the window
			return
		}
		time.Sleep(1300 * time.Millisecond)
		before := answering.Counts().Puts
		for begin := time.Now(); time.Since(begin) < 10*time.Second && !goesOn.Load(); time.Sleep(time.Millisecond) {
			goesOn.Store(answering.Counts().Puts > before)
		}
	}))
	p.Fill, p.GetShare = false, 0
	if _, err := Run(p); err != nil || !goesOn.Load() {
		t.Errorf("the load ended before its end was looked at (%v)", err)
	}
}

// TestAnOpenLoopKeepsItsRate: by the times when its requests were due, whatever the machine does.
func TestAnOpenLoopKeepsItsRate(t *testing.T) {
	p := plan(start(t, 1000))
	p.RateRPS, p.Batch = 2000, 1
	p.Log = filepath.Join(t.TempDir(), "log")
	if _, err := Run(p); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(p.Log)
	var due []int64
	for line := range strings.Lines(string(text)) {
		at, err := strconv.ParseInt(strings.Split(line, "\t")[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		due = append(due, at)
	}
	seconds := float64(slices.Max(due)-slices.Min(due)) / 1e6
	if sent, wanted := float64(len(due)), p.RateRPS*seconds; math.Abs(sent-wanted) > 6*math.Sqrt(wanted) {
		t.Errorf("%v requests in %v s, wanted about %v", sent, seconds, wanted)
	}
}

// TestZipfProbabilities compares frequencies with the law, for exponents below, at and above 1.
func TestZipfProbabilities(t *testing.T) {
	for _, exponent := range []float64{0.5, 0.99, 1, 1.5} {
		const count, draws = 20, 200_000
		drawn := newKeys(rand.New(rand.NewPCG(1, 2)), count, exponent)
		var seen [count]float64
		for range draws {
			seen[drawn.next()]++
		}
		total := 0.0
		for k := range count {
			total += math.Pow(float64(k+1), -exponent)
		}
		for k, times := range seen {
			expected := draws * math.Pow(float64(k+1), -exponent) / total
			if math.Abs(times-expected) > 5*math.Sqrt(expected) {
				t.Errorf("exponent %v: key %d came %v times, expected %.0f", exponent, k, times, expected)
			}
		}
	}
	uniform := newKeys(rand.New(rand.NewPCG(1, 2)), 3, 0)
	for range 100 {
		if uniform.next() > 2 {
			t.Fatal("a key beyond the last")
		}
	}
}

func TestPlansThatCannotBeDoneAreRefused(t *testing.T) {
	for name, change := range map[string]func(p *Plan){
		"protocol":      func(p *Plan) { p.Protocol = "http" },
		"connections":   func(p *Plan) { p.Connections = 0 },
		"threads":       func(p *Plan) { p.Threads = 5 },
		"depth":         func(p *Plan) { p.Depth = 0 },
		"rate":          func(p *Plan) { p.RateRPS = -1 },
		"batch":         func(p *Plan) { p.Batch = 2000 },
		"share":         func(p *Plan) { p.GetShare = math.NaN() },
		"keys":          func(p *Plan) { p.Keys = 0 },
		"zipf":          func(p *Plan) { p.Zipf = -1 },
		"internal":      func(p *Plan) { p.Protocol = "redis" },
		"nothing to do": func(p *Plan) { p.Fill, p.Window = false, 0 },
		"sources":       func(p *Plan) { p.Sources = 999 },
	} {
		p := plan("127.0.0.1:1")
		change(&p)
		if err := p.Check(); err == nil {
			t.Errorf("%s: allowed", name)
		}
	}
	if _, err := Run(plan("unix:/nowhere")); err == nil {
		t.Error("a server that is not there")
	}
}
