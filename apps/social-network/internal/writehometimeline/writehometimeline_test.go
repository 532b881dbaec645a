package writehometimeline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestReceiversAreEachThereOnce(t *testing.T) {
	if got := Receivers([]int64{5, 1, 3}, []int64{3, 9, 9}); !slices.Equal(got, []int64{1, 3, 5, 9}) {
		t.Errorf("%v", got)
	}
}

func TestPoolWorksOnNoMoreThanItHasWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(2)
		defer pool.Close()
		var now, most, done atomic.Int64
		start := time.Now()
		var requests sync.WaitGroup
		for range 3 {
			requests.Go(func() {
				err := pool.Each(t.Context(), 4, func(context.Context, int) error {
					if at := now.Add(1); at > most.Load() {
						most.Store(at)
					}
					time.Sleep(time.Second) // virtual
					now.Add(-1)
					done.Add(1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		requests.Wait()
		if most.Load() != 2 || done.Load() != 12 || time.Since(start) != 6*time.Second {
			t.Errorf("%d at once, %d done, %v", most.Load(), done.Load(), time.Since(start))
		}
		if pool.Size() != 2 {
			t.Errorf("size %d", pool.Size())
		}
	})
}

func TestPoolStopsAtAFailureAndReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1)
		defer pool.Close()
		broken := errors.New("broken")
		begun := 0
		err := pool.Each(t.Context(), 100, func(_ context.Context, i int) error {
			begun++
			if i == 1 {
				return broken
			}
			return nil
		})
		if !errors.Is(err, broken) || begun > 3 {
			t.Errorf("%v after %d", err, begun)
		}
	})
}

func TestPoolObeysTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1)
		defer pool.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := pool.Each(ctx, 3, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}
