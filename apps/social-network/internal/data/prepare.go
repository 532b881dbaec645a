package data

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"tailor/apps/social-network/internal/api"
)

// cachedEntries is how many entries of a timeline its service keeps in the cache: the newest.
const cachedEntries = 1000

// batch is how many commands go to redis in one pipeline.
const batch = 500

// Prepare fills the caches from the databases: `prepare [--only NAME]...`.  It reads what the databases hold, not
// what Seed would make, so posts composed since (by a check) are there too.  Posts go from oldest to newest, so that a
// cache too small for all keeps the newest, which readers ask for most.
func Prepare(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("prepare", flag.ContinueOnError)
	var only names
	flags.Var(&only, "only", "fill only this service's cache; may be repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return runTasks(ctx, []task{
		{"user", prepareUsers},
		{"social-graph", prepareGraph},
		{"post-storage", preparePosts},
		{"user-timeline", prepareTimeline(UserTimelineDB, userTimelineTable, UserTimelineRedis, "ut:")},
		{"home-timeline", prepareTimeline(HomeTimelineDB, homeTimelineTable, HomeTimelineRedis, "ht:")},
		{"url-shorten", prepareURLs},
		{"media", prepareMedia},
	}, only)
}

// eachRow runs a query and calls use after each row was scanned into into.  A scan of a large table starts at its
// beginning, so that every repetition writes the cache in the same order.
func eachRow(ctx context.Context, host, query string, into []any, use func() error) error {
	connection, err := openDatabase(ctx, host)
	if err != nil {
		return err
	}
	defer connection.Close(ctx)
	if _, err := connection.Exec(ctx, "SET synchronize_seqscans = off"); err != nil {
		return err
	}
	found, err := connection.Query(ctx, query)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	if _, err := pgx.ForEachRow(found, into, use); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// cacheRows writes one value into memcached for each row.
func cacheRows(
	ctx context.Context, host, query, address string, into []any, item func() (string, []byte, error),
) (string, error) {
	cache, err := openMemcached(ctx, address)
	if err != nil {
		return "", err
	}
	err = eachRow(ctx, host, query, into, func() error {
		key, value, err := item()
		if err != nil {
			return err
		}
		return cache.set(key, value)
	})
	if err != nil {
		cache.conn.Close()
		return "", err
	}
	return cache.close()
}

func prepareUsers(ctx context.Context) (string, error) {
	var id int64
	var name string
	return cacheRows(ctx, UserDB, "SELECT user_id, username FROM users ORDER BY user_id", UserMemcached, []any{&id, &name},
		func() (string, []byte, error) { return "user:" + name, strconv.AppendInt(nil, id, 10), nil })
}

func prepareURLs(ctx context.Context) (string, error) {
	var short, long string
	return cacheRows(ctx, URLShortenDB, "SELECT short, long FROM urls", URLShortenMemcached, []any{&short, &long},
		func() (string, []byte, error) { return "url:" + short, []byte(long), nil })
}

func prepareMedia(ctx context.Context) (string, error) {
	var id int64
	var content []byte
	return cacheRows(ctx, MediaDB, "SELECT media_id, data FROM media ORDER BY media_id", MediaMemcached, []any{&id, &content},
		func() (string, []byte, error) { return "media:" + strconv.FormatInt(id, 10), content, nil })
}

// pipeline sends commands to a redis in batches.
type pipeline struct {
	client *redis.Client
	queued redis.Pipeliner
	count  int
}

func openRedis(ctx context.Context, address string) (*pipeline, error) {
	conn, err := dial(ctx, address) // waits until it accepts
	if err != nil {
		return nil, err
	}
	conn.Close()
	client := redis.NewClient(&redis.Options{Addr: address})
	return &pipeline{client: client, queued: client.Pipeline()}, nil
}

func (p *pipeline) added(ctx context.Context) error {
	p.count++
	if p.queued.Len() < batch {
		return nil
	}
	return p.send(ctx)
}

func (p *pipeline) send(ctx context.Context) error {
	if p.queued.Len() == 0 {
		return nil
	}
	_, err := p.queued.Exec(ctx)
	return err
}

// prepareTimeline rebuilds each user's sorted set from the newest entries of its database.
func prepareTimeline(host string, t table, address, prefix string) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		cache, err := openRedis(ctx, address)
		if err != nil {
			return "", err
		}
		defer cache.client.Close()
		var user, post, created, current int64
		var members []redis.Z
		store := func() error {
			if len(members) == 0 {
				return nil
			}
			key := prefix + strconv.FormatInt(current, 10)
			cache.queued.Del(ctx, key)
			cache.queued.ZAdd(ctx, key, members...)
			members = nil
			return cache.added(ctx)
		}
		query := "SELECT user_id, post_id, created_ms FROM " + t.name + " ORDER BY user_id, created_ms DESC, post_id DESC"
		err = eachRow(ctx, host, query, []any{&user, &post, &created}, func() error {
			if user != current {
				if err := store(); err != nil {
					return err
				}
				current = user
			}
			if len(members) < cachedEntries {
				members = append(members, redis.Z{Score: float64(created), Member: strconv.FormatInt(post, 10)})
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		if err := store(); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d timelines", cache.count), cache.send(ctx)
	}
}

// prepareGraph writes both directions of every edge.
func prepareGraph(ctx context.Context) (string, error) {
	var follower, followee int64
	sets := map[string][]any{}
	var order []string
	add := func(key string, member int64) {
		if _, seen := sets[key]; !seen {
			order = append(order, key)
		}
		sets[key] = append(sets[key], member)
	}
	err := eachRow(ctx, SocialGraphDB, "SELECT follower_id, followee_id FROM follows ORDER BY follower_id, followee_id",
		[]any{&follower, &followee}, func() error {
			add("followers:"+strconv.FormatInt(followee, 10), follower)
			add("followees:"+strconv.FormatInt(follower, 10), followee)
			return nil
		})
	if err != nil {
		return "", err
	}
	cache, err := openRedis(ctx, SocialGraphRedis)
	if err != nil {
		return "", err
	}
	defer cache.client.Close()
	for _, key := range order {
		cache.queued.Del(ctx, key)
		cache.queued.SAdd(ctx, key, sets[key]...)
		if err := cache.added(ctx); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d sets", cache.count), cache.send(ctx)
}

// preparePosts writes each post as post-storage itself would cache it.
func preparePosts(ctx context.Context) (string, error) {
	var id int64
	var post api.Post
	query := `SELECT post_id, creator_id, creator_username, text, mentions, urls, media, post_type, created_ms
		FROM posts ORDER BY post_id`
	into := []any{
		&id, &post.Creator.UserID, &post.Creator.Username, &post.Text, (*[]byte)(&post.UserMentions),
		(*[]byte)(&post.URLs), (*[]byte)(&post.Media), &post.PostType, &post.TimestampMS,
	}
	return cacheRows(ctx, PostStorageDB, query, PostStorageMemcached, into, func() (string, []byte, error) {
		post.PostID = api.ID(id)
		value, err := json.Marshal(&post)
		return "post:" + post.PostID.String(), value, err
	})
}
