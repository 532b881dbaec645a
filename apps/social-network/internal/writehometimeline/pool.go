package writehometimeline

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Pool is a fixed number of workers and no queue: who brings work waits until a worker takes it.
type Pool struct {
	jobs    chan job
	running atomic.Int64
	ended   sync.WaitGroup
}

type job struct {
	ctx  context.Context //nolint:containedctx // a job carries its request's deadline and trace to the worker
	work func(context.Context) error
	done chan<- error
}

// NewPool starts size workers.
func NewPool(size int) *Pool {
	p := &Pool{jobs: make(chan job)}
	for range size {
		p.running.Add(1)
		p.ended.Go(p.run)
	}
	return p
}

func (p *Pool) run() {
	defer p.running.Add(-1)
	for next := range p.jobs {
		next.done <- next.work(next.ctx)
	}
}

// Size is how many workers run.
func (p *Pool) Size() int64 { return p.running.Load() }

// Close ends the workers after the work they have. Each must not be called any more.
func (p *Pool) Close() {
	close(p.jobs)
	p.ended.Wait()
}

// Each has work done for 0..count-1 and waits for all that was begun. After a failure or the end of ctx, what has not
// begun is not done.
func (p *Pool) Each(ctx context.Context, count int, work func(context.Context, int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, count) // room for all, so that no worker ever waits for this request
	begun, ended := 0, 0
	var failure error
	for begun < count && failure == nil {
		index := begun
		next := job{ctx, func(ctx context.Context) error { return work(ctx, index) }, done}
		select {
		case p.jobs <- next:
			begun++
		case err := <-done:
			ended++
			failure = errors.Join(failure, err)
		case <-ctx.Done():
			failure = errors.Join(failure, ctx.Err())
		}
	}
	if failure != nil {
		cancel()
	}
	for ; ended < begun; ended++ {
		failure = errors.Join(failure, <-done)
	}
	return failure
}
