package load

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"tailor/apps/key-value/internal/client"
	"tailor/apps/key-value/internal/dialect"
	"tailor/apps/key-value/internal/socket"
)

// usageTimeout bounds how long a server may take to tell its state.
const usageTimeout = 30 * time.Second

// Run carries out a plan.
func Run(plan Plan) (Result, error) {
	if err := plan.Check(); err != nil {
		return Result{}, err
	}
	if err := socket.AllowDescriptors(plan.Connections + 100); err != nil {
		return Result{}, err
	}
	control, err := client.Dial(plan.Address, plan.dialect(), usageTimeout)
	if err != nil {
		return Result{}, err
	}
	defer control.Close()
	workers := make([]*worker, plan.Threads)
	for number := range workers {
		share := plan.Connections*(number+1)/plan.Threads - plan.Connections*number/plan.Threads
		workers[number], err = newWorker(&plan, number, share)
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", plan.Address, err)
		}
		defer workers[number].close()
	}
	var result Result
	if plan.Fill {
		begin := time.Now()
		if err := drive(workers, &phase{fill: true, next: new(atomic.Uint64), start: begin}); err != nil {
			return result, err
		}
		result.FillSeconds = time.Since(begin).Seconds()
		for _, w := range workers {
			if w.result.refusal != nil {
				return result, fmt.Errorf("the server refused to store records: %w", w.result.refusal)
			}
		}
	}
	if plan.Window > 0 {
		err = measure(&plan, workers, control, &result)
	}
	if err == nil && plan.Log != "" {
		err = writeLog(plan.Log, workers)
	}
	return result, err
}

func drive(workers []*worker, p *phase) error {
	var running errgroup.Group
	for _, w := range workers {
		running.Go(func() error { return w.drive(p) })
	}
	return running.Wait()
}

// moment is what was counted until a time.
type moment struct {
	at     time.Time
	client float64
	server dialect.Usage
	counts [4]int64
}

func look(workers []*worker, control *client.Connection) (m moment, err error) {
	if m.server, err = control.Usage(); err != nil {
		return m, err
	}
	m.at = time.Now()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return m, err
	}
	m.client = float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
	for _, w := range workers {
		for i, count := range []*atomic.Int64{&w.result.gets, &w.result.puts, &w.result.misses, &w.result.wrong} {
			m.counts[i] += count.Load()
		}
	}
	return m, nil
}

// measure drives the load, and looks at it when the window begins and ends.
func measure(plan *Plan, workers []*worker, control *client.Connection, result *Result) error {
	// The load goes on a little, so that the end of the window is looked at under load.
	p := &phase{start: time.Now(), length: plan.Warmup + plan.Window + time.Second}
	ended := make(chan error, 1)
	go func() { ended <- drive(workers, p) }()
	time.Sleep(time.Until(p.start.Add(plan.Warmup)))
	before, err := look(workers, control)
	if err != nil {
		return errors.Join(err, <-ended)
	}
	p.recording.Store(true)
	time.Sleep(time.Until(before.at.Add(plan.Window)))
	p.recording.Store(false)
	after, err := look(workers, control)
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	result.Seconds = after.at.Sub(before.at).Seconds()
	result.Gets, result.Puts = after.counts[0]-before.counts[0], after.counts[1]-before.counts[1]
	result.Misses, result.Wrong = after.counts[2]-before.counts[2], after.counts[3]-before.counts[3]
	result.GetsPerS = float64(result.Gets) / result.Seconds
	result.PutsPerS = float64(result.Puts) / result.Seconds
	result.ClientCPUSeconds = after.client - before.client
	result.ServerCPUSeconds = after.server.CPUSeconds - before.server.CPUSeconds
	if result.ServerCPUSeconds > 0 {
		result.KeysPerServerCPU = float64(result.Gets+result.Puts) / result.ServerCPUSeconds
	}
	result.ServerRecords = after.server.Records
	collect(workers, result)
	return nil
}

// collect sums the threads' latencies and failures.
func collect(workers []*worker, result *Result) {
	gets, puts := newLatencies(), newLatencies()
	for _, w := range workers {
		gets.external.histogram.Merge(w.gets.external.histogram)
		gets.internal.histogram.Merge(w.gets.internal.histogram)
		puts.external.histogram.Merge(w.puts.external.histogram)
		puts.internal.histogram.Merge(w.puts.internal.histogram)
		result.Refused += w.result.refused.Load()
		result.Dropped += w.result.dropped.Load()
		result.Unanswered += w.result.unanswered.Load()
		if w.result.refusal != nil && result.Refusal == "" {
			result.Refusal = w.result.refusal.Error()
		}
	}
	result.GetLatency, result.PutLatency = summary(gets.external.histogram), summary(puts.external.histogram)
	result.GetInternalLatency = summary(gets.internal.histogram)
	result.PutInternalLatency = summary(puts.internal.histogram)
}

func (w *worker) close() {
	for _, s := range w.sessions {
		_ = unix.Close(s.descriptor)
	}
	_ = unix.Close(w.epoll)
	_ = unix.Close(w.timer)
}
