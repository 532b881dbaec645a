package service

import "context"

// workerPool bounds how many requests are worked on at once. Those beyond wait in line (channels wake their senders
// in order) until their deadline. A worker is the goroutine that net/http has already made for the connection: what
// is bounded is the work, without a hand-over between goroutines that each request would pay for.
type workerPool struct{ places chan struct{} }

func newWorkerPool(size int) *workerPool { return &workerPool{make(chan struct{}, size)} }

// enter waits for a worker. The error is that of ctx.
func (p *workerPool) enter(ctx context.Context) error {
	select {
	case p.places <- struct{}{}:
		return nil
	default:
	}
	select {
	case p.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *workerPool) leave() { <-p.places }
