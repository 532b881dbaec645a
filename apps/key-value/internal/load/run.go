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
	counts [6]int64 // in the order of windowed
}

// windowed are the counts of which the window's part is told.
func (c *counts) windowed() [6]*atomic.Int64 {
	return [...]*atomic.Int64{&c.gets, &c.misses, &c.wrong, &c.puts, &c.refused, &c.dropped}
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
		for i, count := range w.result.windowed() {
			m.counts[i] += count.Load()
		}
	}
	return m, nil
}

// measure drives the load, and looks at it when the window begins and ends, while the load goes on.
func measure(plan *Plan, workers []*worker, control *client.Connection, result *Result) error {
	p := &phase{start: time.Now()}
	ended := make(chan error, 1)
	go func() { ended <- drive(workers, p) }()
	time.Sleep(plan.Warmup)
	before, err := look(workers, control)
	if err != nil {
		p.over.Store(true)
		return errors.Join(err, <-ended)
	}
	p.recording.Store(true)
	time.Sleep(time.Until(before.at.Add(plan.Window)))
	p.recording.Store(false)
	after, err := look(workers, control)
	p.over.Store(true)
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	result.Seconds = after.at.Sub(before.at).Seconds()
	for i, into := range []*int64{
		&result.Gets, &result.Misses, &result.Wrong, &result.Puts, &result.Refused, &result.Dropped,
	} {
		*into = after.counts[i] - before.counts[i]
	}
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

// collect sums the threads' latencies, and what has no reply.
func collect(workers []*worker, result *Result) {
	gets, puts := newLatencies(), newLatencies()
	for _, w := range workers {
		gets.add(w.gets)
		puts.add(w.puts)
		result.Unanswered += w.result.unanswered.Load()
		if w.result.refusal != nil && result.Refusal == "" {
			result.Refusal = w.result.refusal.Error()
		}
	}
	result.GetLatency, result.PutLatency = gets.external.Summary(), puts.external.Summary()
	result.GetInternalLatency, result.PutInternalLatency = gets.internal.Summary(), puts.internal.Summary()
}

func (w *worker) close() {
	for _, s := range w.sessions {
		_ = unix.Close(s.descriptor)
	}
	_ = unix.Close(w.epoll)
	_ = unix.Close(w.timer)
}
