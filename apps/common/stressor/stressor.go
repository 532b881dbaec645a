// Package stressor puts load on one shared resource of a machine at a time: arithmetic, each cache, memory bandwidth
// and capacity, network and block devices.  Beside a service, on the service's CPUs, it shows what the service suffers
// from.
package stressor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// period is one turn of the duty cycle: short against a request that waits, long against a timer's error.
const period = 10 * time.Millisecond

// Plan says what to do, where and for how long.
type Plan struct {
	Kind      string
	Threads   int
	Duty      float64       // of each period, from above 0 to 1
	Seconds   float64       // 0: until the context ends
	CPUs      []int         // thread i is bound to CPUs[i % len]; none: the kernel chooses
	Bytes     int           // of the working set of a thread; 0: from the machine's caches
	Directory string        // where block writes its file
	Every     time.Duration // between two reports
}

// Report is what was done since the last one, of all threads together.
type Report struct {
	Kind      string  `json:"kind"`
	Threads   int     `json:"threads"`
	Duty      float64 `json:"duty"`
	Bytes     int     `json:"bytes"`
	Seconds   float64 `json:"seconds"`
	Done      float64 `json:"done"`
	Unit      string  `json:"unit"`
	PerSecond float64 `json:"per_second"`
}

// load is the work of one thread.  step does a small piece of it, well below a period, and returns how much that was.
type load interface {
	step() (float64, error)
	close()
}

// kind makes loads; bytes is its default working set.
type kind struct {
	unit  string
	bytes func(Caches) int
	open  func(bytes int, directory string) (load, error)
}

var kinds = map[string]kind{
	"gemm":             {"flop", func(Caches) int { return gemmBytes }, newGemm},
	"l1d":              {"lines", func(c Caches) int { return c.L1d }, newLines},
	"l1i":              {"jumps", func(c Caches) int { return 2 * c.L1i }, newJumps},
	"l2":               {"lines", func(c Caches) int { return c.L2 }, newLines},
	"l3":               {"lines", func(c Caches) int { return min(c.L3, mostBytes) }, newLines},
	"memory-bandwidth": {"bytes", func(c Caches) int { return min(max(4*c.L3, leastStream), mostBytes) }, newStream},
	"memory-capacity":  {"pages", func(Caches) int { return mostBytes }, newPages},
	"network":          {"bytes", func(Caches) int { return networkBytes }, newNetwork},
	"block":            {"bytes", func(Caches) int { return blockBytes }, newBlock},
}

// Kinds are the names of all kinds, sorted.
func Kinds() []string {
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Check says what is wrong with a plan.
func (p Plan) Check() error {
	switch {
	case kinds[p.Kind].open == nil:
		return fmt.Errorf("--kind %q: allowed are %v", p.Kind, Kinds())
	case p.Threads < 1 || p.Threads > 1024:
		return fmt.Errorf("--threads %d: allowed is 1 to 1024", p.Threads)
	case !(p.Duty > 0 && p.Duty <= 1):
		return fmt.Errorf("--duty %v: allowed is above 0, at most 1", p.Duty)
	case !(p.Seconds >= 0):
		return fmt.Errorf("--seconds %v: allowed is 0 (until it is stopped) or more", p.Seconds)
	case p.Bytes < 0:
		return fmt.Errorf("--bytes %d: allowed is 0 (from the machine's caches) or more", p.Bytes)
	}
	return nil
}

// Run works to the plan and reports until its time is over or ctx ends; the last report is of what was left.
func Run(ctx context.Context, plan Plan, report func(Report)) error {
	if err := plan.Check(); err != nil {
		return err
	}
	of := kinds[plan.Kind]
	if plan.Bytes == 0 {
		plan.Bytes = of.bytes(ReadCaches(first(plan.CPUs)))
	}
	// What is allocated stays in use; collecting it would be work of another kind.
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), plan.Threads+1))
	if plan.Seconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(plan.Seconds*float64(time.Second)))
		defer cancel()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	threads := make([]thread, plan.Threads)
	failures := make([]error, plan.Threads)
	var waiting sync.WaitGroup
	for i := range threads {
		waiting.Go(func() {
			if failures[i] = threads[i].run(ctx, plan, i, of); failures[i] != nil {
				stop()
			}
		})
	}
	began, before := time.Now(), 0.0
	say := func() {
		now, total := time.Now(), 0.0
		for i := range threads {
			total += threads[i].total()
		}
		seconds := now.Sub(began).Seconds()
		report(Report{
			plan.Kind, plan.Threads, plan.Duty, plan.Bytes, seconds, total - before, of.unit, (total - before) / seconds,
		})
		began, before = now, total
	}
	ticker := time.NewTicker(plan.Every)
	defer ticker.Stop()
	for running := true; running; {
		select {
		case <-ticker.C:
			say()
		case <-ctx.Done():
			running = false
		}
	}
	waiting.Wait()
	say()
	return errors.Join(failures...)
}

func first(cpus []int) int {
	if len(cpus) == 0 {
		return 0
	}
	return cpus[0]
}

// thread counts what one thread has done, in thousandths, for a reader on another thread.
type thread struct{ done atomic.Int64 }

func (t *thread) total() float64 { return float64(t.done.Load()) / 1000 }

func (t *thread) run(ctx context.Context, plan Plan, number int, of kind) error {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and its binding with it
	if len(plan.CPUs) > 0 {
		var set unix.CPUSet
		set.Set(plan.CPUs[number%len(plan.CPUs)])
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return fmt.Errorf("thread %d cannot be bound to CPU %d: %w", number, plan.CPUs[number%len(plan.CPUs)], err)
		}
	}
	work, err := of.open(plan.Bytes, plan.Directory)
	if err != nil {
		return fmt.Errorf("%s: %w", plan.Kind, err)
	}
	defer work.close()
	busy := time.Duration(plan.Duty * float64(period))
	for turn := time.Now(); ctx.Err() == nil; {
		for time.Since(turn) < busy {
			done, err := work.step()
			if err != nil {
				return fmt.Errorf("%s: %w", plan.Kind, err)
			}
			t.done.Add(int64(done * 1000))
		}
		if plan.Duty < 1 {
			time.Sleep(time.Until(turn.Add(period)))
		}
		turn = time.Now()
	}
	return nil
}
