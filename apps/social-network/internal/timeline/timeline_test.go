package timeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"tailor/apps/common/storetest"
)

const firstPost = 1_000_000_000_000_000_000

// stored is timelines in a real database and a real redis, and a client of that redis for the test itself.
func stored(t *testing.T) (*Timelines, *redis.Client) {
	t.Helper()
	s := storetest.Service(t, "user-timeline")
	database := storetest.Database(t, s, `CREATE TABLE lines (user_id bigint, post_id bigint, created_ms bigint,
		PRIMARY KEY (user_id, post_id))`, "CREATE INDEX ON lines (user_id, created_ms DESC, post_id DESC)")
	cache, address := storetest.Redis(t, s)
	client := redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { _ = client.Close() })
	return New(database, cache, "lines", "ut"), client
}

func add(t *testing.T, timelines *Timelines, user int64, numbers ...int64) {
	t.Helper()
	for _, n := range numbers {
		if err := timelines.Add(t.Context(), []int64{user}, Entry{firstPost + n, n}); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, timelines *Timelines, user, start, stop int64) []int64 {
	t.Helper()
	posts, err := timelines.Read(t.Context(), user, start, stop)
	if err != nil {
		t.Fatal(err)
	}
	numbers := make([]int64, len(posts))
	for i, post := range posts {
		numbers[i] = post - firstPost
	}
	return numbers
}

func numbersDown(from, to int64) []int64 {
	var numbers []int64
	for n := from; n >= to; n-- {
		numbers = append(numbers, n)
	}
	return numbers
}

func expect(t *testing.T, got, want []int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

func TestForgottenTimelinesComeBackWhole(t *testing.T) {
	timelines, client := stored(t)
	ctx := t.Context()
	add(t, timelines, 1, 1, 2, 3)
	if n := client.Exists(ctx, "ut:1").Val(); n != 0 {
		t.Error("a write to a timeline that is not in redis made one")
	}
	expect(t, read(t, timelines, 1, 0, 10), []int64{3, 2, 1})
	if n := client.ZCard(ctx, "ut:1").Val(); n != 3 {
		t.Errorf("redis got %d entries back", n)
	}
	add(t, timelines, 1, 4)
	expect(t, read(t, timelines, 1, 1, 3), []int64{3, 2})
	client.FlushAll(ctx)
	add(t, timelines, 1, 5)
	expect(t, read(t, timelines, 1, 0, 10), numbersDown(5, 1))
	expect(t, read(t, timelines, 1, 5, 10), nil)
	expect(t, read(t, timelines, 2, 0, 10), nil)
}

func TestARebuildThatAWriteOvertookIsNotKept(t *testing.T) {
	timelines, client := stored(t)
	ctx := t.Context()
	add(t, timelines, 1, 1)
	// What a reader does that has the lease and has read the database, and is then overtaken.
	client.Set(ctx, "lease:ut:1", "mine", 0)
	add(t, timelines, 1, 2)
	kept, err := fillScript.Run(ctx, client, []string{"ut:1", "lease:ut:1"}, "mine", 1, firstPost+1).Int()
	if err != nil || kept != 0 {
		t.Errorf("the old state was kept: %d, %v", kept, err)
	}
	expect(t, read(t, timelines, 1, 0, 10), []int64{2, 1})
	// And one whose lease somebody else has meanwhile.
	client.FlushAll(ctx)
	client.Set(ctx, "lease:ut:1", "another's", 0)
	expect(t, read(t, timelines, 1, 0, 10), []int64{2, 1})
	if n := client.Exists(ctx, "ut:1").Val(); n != 0 {
		t.Error("filled without the lease")
	}
}

func TestRedisKeepsTheNewestAndTheDatabaseAll(t *testing.T) {
	timelines, client := stored(t)
	const more = 20
	_, err := timelines.database.Execute(t.Context(), "INSERT lines",
		"INSERT INTO lines SELECT 1, $1::bigint + n, n FROM generate_series(1, $2) AS n", int64(firstPost), Limit+more)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, read(t, timelines, 1, 0, 2), []int64{Limit + more, Limit + more - 1})
	add(t, timelines, 1, Limit+more+1)
	if n := client.ZCard(t.Context(), "ut:1").Val(); n != Limit {
		t.Errorf("redis holds %d entries", n)
	}
	expect(t, read(t, timelines, 1, Limit-2, Limit), numbersDown(more+3, more+2))
	expect(t, read(t, timelines, 1, Limit-2, Limit+2), numbersDown(more+3, more))
	expect(t, read(t, timelines, 1, Limit+more, Limit+more+5), []int64{1})
}

func TestAFullRedisDropsTheTimelineAndFailsTheRequest(t *testing.T) {
	timelines, client := stored(t)
	ctx := t.Context()
	add(t, timelines, 1, 1)
	expect(t, read(t, timelines, 1, 0, 10), []int64{1})
	client.ConfigSet(ctx, "maxmemory-policy", "noeviction")
	client.ConfigSet(ctx, "maxmemory", "1")
	if err := timelines.Add(ctx, []int64{1}, Entry{firstPost + 2, 2}); err == nil {
		t.Error("a redis that took nothing is no success")
	}
	client.ConfigSet(ctx, "maxmemory", "0")
	if n := client.Exists(ctx, "ut:1").Val(); n != 0 {
		t.Error("a timeline without its newest entry stayed")
	}
	expect(t, read(t, timelines, 1, 0, 10), []int64{2, 1})
}

// Writers, readers and an eviction that strikes at random: a read never lacks a post that was there before it began,
// and what it returns has no gap.
func TestTimelinesAreNeverPartialUnderEviction(t *testing.T) {
	timelines, client := stored(t)
	const users, posts, readers = 3, 150, 4
	var acknowledged [users]atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var writing, others sync.WaitGroup
	for user := range int64(users) {
		writing.Go(func() {
			for n := int64(1); n <= posts; n++ {
				if err := timelines.Add(ctx, []int64{user}, Entry{firstPost + n, n}); err != nil {
					t.Error(err)
					return
				}
				acknowledged[user].Store(n)
			}
		})
	}
	others.Go(func() {
		random := rand.New(rand.NewPCG(1, 1))
		for ctx.Err() == nil {
			client.Del(ctx, fmt.Sprintf("ut:%d", random.Int64N(users)))
		}
	})
	var reads atomic.Int64
	for reader := range readers {
		others.Go(func() {
			for ctx.Err() == nil {
				user := int64(reader) % users
				known := acknowledged[user].Load()
				got, err := timelines.Read(ctx, user, 0, Limit)
				if ctx.Err() != nil {
					return
				}
				reads.Add(1)
				if err != nil || int64(len(got)) < known {
					t.Errorf("%d of %d entries, %v", len(got), known, err)
					return
				}
				for i, post := range got {
					if post != firstPost+int64(len(got)-i) {
						t.Errorf("entry %d is %d of %d", i, post-firstPost, len(got))
						return
					}
				}
			}
		})
	}
	writing.Wait()
	stop()
	others.Wait()
	if reads.Load() == 0 {
		t.Error("nothing was read while it was written")
	}
	for user := range int64(users) {
		expect(t, read(t, timelines, user, 0, Limit), numbersDown(posts, 1))
	}
}
