// Package timeline keeps timelines: in a database, which is the truth and is written first, and in a redis, which may
// forget any of them at any time.
//
// It exists for one rule, which user-timeline, home-timeline and write-home-timeline all depend on: a timeline that
// redis has is never partial. It holds the newest Limit entries of the database, or it is not there.
//
// Three things could break the rule. A write to a timeline that redis has forgotten would make one of a single entry:
// so an entry is added only where there is a timeline. A reader that rebuilds from rows it read before a write would
// bring back the state before it: so a rebuild needs a lease, which every write takes away (the leases of Nishtala et
// al., Scaling Memcache at Facebook, NSDI'13, section 3.2.1). And a write whose second half fails would leave the old
// timeline: so the timeline is then dropped.
package timeline

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"tailor/apps/common/service"
)

// Limit is how many entries of a timeline redis holds at most; older ones are read from the database.
const Limit = 1000

// leaseTime is how long a rebuild may take before another reader may try.
const leaseTime = 5 * time.Second

// dropTimeout bounds the attempt to drop timelines after a failed write, whose own deadline may have passed.
const dropTimeout = time.Second

// addScript adds one entry (ARGV: score, member, limit) to each timeline that is there. KEYS alternate timeline and
// lease. A timeline that cannot take the entry, because redis is full, is dropped and the first error returned. The
// leases go last: redis does not check its memory any more in a script that has already written.
var addScript = redis.NewScript(`
local failure = nil
for i = 1, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    local result = redis.pcall('ZADD', KEYS[i], ARGV[1], ARGV[2])
    if type(result) == 'table' and result.err then
      redis.call('DEL', KEYS[i])
      failure = failure or result
    else
      redis.call('ZREMRANGEBYRANK', KEYS[i], 0, -1 - tonumber(ARGV[3]))
    end
  end
end
for i = 2, #KEYS, 2 do redis.call('DEL', KEYS[i]) end
return failure or redis.status_reply('OK')
`)

// fillScript stores a rebuilt timeline (ARGV: lease, then score and member in turn) if the lease is still held.
var fillScript = redis.NewScript(`
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[2])
if #ARGV > 1 then redis.call('ZADD', KEYS[1], unpack(ARGV, 2)) end
return 1
`)

// Entry is one post on a timeline.
type Entry struct{ PostID, CreatedMS int64 }

// Timelines is the timelines of all users in one database and one redis.
type Timelines struct {
	database *service.Database
	cache    *service.Redis
	table    string
	prefix   string
}

// New keeps timelines in a table (user_id, post_id, created_ms) and in sorted sets "<prefix>:<user>".
func New(database *service.Database, cache *service.Redis, table, prefix string) *Timelines {
	return &Timelines{database: database, cache: cache, table: table, prefix: prefix + ":"}
}

// Open is New with the database and the redis of the service of that name ("home-timeline").
func Open(ctx context.Context, s *service.Service, name, table, prefix string) (*Timelines, error) {
	database, err := s.Database(ctx, name+"-db")
	if err != nil {
		return nil, err
	}
	cache, err := s.Redis(name + "-redis")
	if err != nil {
		return nil, err
	}
	return New(database, cache, table, prefix), nil
}

func (t *Timelines) key(user int64) string { return t.prefix + strconv.FormatInt(user, 10) }

func leaseOf(key string) string { return "lease:" + key }

// Add puts a post on the timelines of users, which differ from each other.
func (t *Timelines) Add(ctx context.Context, users []int64, entry Entry) error {
	_, err := t.database.Execute(ctx, "INSERT "+t.table, "INSERT INTO "+t.table+
		" (user_id, post_id, created_ms) SELECT u, $2, $3 FROM unnest($1::bigint[]) AS u ON CONFLICT DO NOTHING",
		users, entry.PostID, entry.CreatedMS)
	if err != nil {
		// The rows may be there all the same, when only the answer was lost.
		return t.dropped(ctx, users, err)
	}
	keys := make([]string, 0, 2*len(users))
	for _, user := range users {
		key := t.key(user)
		keys = append(keys, key, leaseOf(key))
	}
	err = t.cache.Do(ctx, "EVALSHA add", func(ctx context.Context, client *redis.Client) error {
		return addScript.Run(ctx, client, keys, entry.CreatedMS, entry.PostID, Limit).Err()
	})
	if err != nil {
		return t.dropped(ctx, users, err)
	}
	return nil
}

// dropped makes redis forget timelines that may lack an entry, and returns the failure that was the reason.
func (t *Timelines) dropped(ctx context.Context, users []int64, reason error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	keys := make([]string, 0, 2*len(users))
	for _, user := range users {
		key := t.key(user)
		keys = append(keys, key, leaseOf(key))
	}
	err := t.cache.Do(ctx, "DEL", func(ctx context.Context, client *redis.Client) error {
		return client.Del(ctx, keys...).Err()
	})
	if err != nil {
		return fmt.Errorf("%w; and the timelines could not be dropped: %w", reason, err)
	}
	return reason
}

// Read is the posts from start up to but without stop, newest first.
func (t *Timelines) Read(ctx context.Context, user, start, stop int64) ([]int64, error) {
	if start >= stop {
		return nil, nil
	}
	if stop > Limit {
		return t.page(ctx, user, start, stop)
	}
	key := t.key(user)
	posts, isThere, err := t.cached(ctx, key, start, stop)
	if err != nil || isThere {
		return posts, err
	}
	return t.rebuild(ctx, key, user, start, stop)
}

// cached reads from redis. A range without entries may be past the end of a timeline or of one that is not there:
// then one transaction asks for both.
func (t *Timelines) cached(ctx context.Context, key string, start, stop int64) (posts []int64, isThere bool, err error) {
	var members []string
	err = t.cache.Do(ctx, "ZREVRANGE", func(ctx context.Context, client *redis.Client) error {
		members, err = client.ZRevRange(ctx, key, start, stop-1).Result()
		if err != nil || len(members) > 0 {
			isThere = true
			return err
		}
		var exists *redis.IntCmd
		var again *redis.StringSliceCmd
		_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			exists = pipe.Exists(ctx, key)
			again = pipe.ZRevRange(ctx, key, start, stop-1)
			return nil
		})
		isThere, members = exists.Val() == 1, again.Val()
		return err
	})
	if err != nil {
		return nil, false, err
	}
	posts = make([]int64, len(members))
	for i, member := range members {
		if posts[i], err = strconv.ParseInt(member, 10, 64); err != nil {
			return nil, false, fmt.Errorf("%s: %w", key, err)
		}
	}
	return posts, isThere, nil
}

// rebuild reads from the database, and gives redis the timeline back if nobody else is about to.
func (t *Timelines) rebuild(ctx context.Context, key string, user, start, stop int64) ([]int64, error) {
	lease := rand.Text()
	isHeld := false
	err := t.cache.Do(ctx, "SET lease", func(ctx context.Context, client *redis.Client) error {
		answer, err := client.SetArgs(ctx, leaseOf(key), lease, redis.SetArgs{Mode: "NX", TTL: leaseTime}).Result()
		isHeld = answer == "OK"
		return err
	})
	if err != nil {
		return nil, err
	}
	if !isHeld {
		return t.page(ctx, user, start, stop)
	}
	entries, err := t.entries(ctx, user, 0, Limit)
	if err != nil {
		return nil, err
	}
	arguments := make([]any, 0, 1+2*len(entries))
	arguments = append(arguments, lease)
	for _, entry := range entries {
		arguments = append(arguments, entry.CreatedMS, entry.PostID)
	}
	err = t.cache.Do(ctx, "EVALSHA fill", func(ctx context.Context, client *redis.Client) error {
		return fillScript.Run(ctx, client, []string{key, leaseOf(key)}, arguments...).Err()
	})
	if err != nil {
		return nil, err
	}
	count := int64(len(entries))
	return postsOf(entries[min(start, count):min(stop, count)]), nil
}

func (t *Timelines) page(ctx context.Context, user, start, stop int64) ([]int64, error) {
	entries, err := t.entries(ctx, user, start, stop-start)
	return postsOf(entries), err
}

func (t *Timelines) entries(ctx context.Context, user, offset, count int64) ([]Entry, error) {
	var entries []Entry
	err := t.database.Select(ctx, "SELECT "+t.table, "SELECT post_id, created_ms FROM "+t.table+
		" WHERE user_id = $1 ORDER BY created_ms DESC, post_id DESC OFFSET $2 LIMIT $3",
		func(scan func(...any) error) error {
			var entry Entry
			if err := scan(&entry.PostID, &entry.CreatedMS); err != nil {
				return err
			}
			entries = append(entries, entry)
			return nil
		}, user, offset, count)
	return entries, err
}

func postsOf(entries []Entry) []int64 {
	posts := make([]int64, len(entries))
	for i, entry := range entries {
		posts[i] = entry.PostID
	}
	return posts
}
