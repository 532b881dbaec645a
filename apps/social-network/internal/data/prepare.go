package data

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tailor/apps/common/fixture"
	"tailor/apps/social-network/internal/api"
)

// cachedEntries is how many entries of a timeline its service keeps in the cache: the newest.
const cachedEntries = 1000

// Prepare fills the caches from the databases: `prepare [--only NAME]...`.  It reads what the databases hold, not
// what Seed would make, so posts composed since (by a check) are there too.  Posts go from oldest to newest, so that a
// cache too small for all keeps the newest, which readers ask for most.
func Prepare(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("prepare", flag.ContinueOnError)
	var only fixture.Names
	flags.Var(&only, "only", "fill only this service's cache; may be repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return fixture.RunTasks(ctx, []fixture.Task{
		{Name: "user", Run: prepareUsers},
		{Name: "social-graph", Run: prepareGraph},
		{Name: "post-storage", Run: preparePosts},
		{Name: "user-timeline", Run: prepareTimeline(UserTimelineDB, userTimelineTable, UserTimelineRedis, "ut:")},
		{Name: "home-timeline", Run: prepareTimeline(HomeTimelineDB, homeTimelineTable, HomeTimelineRedis, "ht:")},
		{Name: "url-shorten", Run: prepareURLs},
		{Name: "media", Run: prepareMedia},
	}, only)
}

func prepareUsers(ctx context.Context) (string, error) {
	var id int64
	var name string
	return fixture.CacheRows(ctx, UserDB, "SELECT user_id, username FROM users ORDER BY user_id", UserMemcached, []any{&id, &name},
		func() (string, []byte, error) { return "user:" + name, strconv.AppendInt(nil, id, 10), nil })
}

func prepareURLs(ctx context.Context) (string, error) {
	var short, long string
	return fixture.CacheRows(ctx, URLShortenDB, "SELECT short, long FROM urls", URLShortenMemcached, []any{&short, &long},
		func() (string, []byte, error) { return "url:" + short, []byte(long), nil })
}

func prepareMedia(ctx context.Context) (string, error) {
	var id int64
	var content []byte
	return fixture.CacheRows(ctx, MediaDB, "SELECT media_id, data FROM media ORDER BY media_id", MediaMemcached, []any{&id, &content},
		func() (string, []byte, error) { return "media:" + strconv.FormatInt(id, 10), content, nil })
}

// prepareTimeline rebuilds each user's sorted set from the newest entries of its database.
func prepareTimeline(host string, t fixture.Table, address, prefix string) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		cache, err := fixture.OpenRedis(ctx, address)
		if err != nil {
			return "", err
		}
		defer cache.Close()
		var user, post, created, current int64
		var members []redis.Z
		store := func() error {
			if len(members) == 0 {
				return nil
			}
			key := prefix + strconv.FormatInt(current, 10)
			cache.Del(ctx, key)
			cache.ZAdd(ctx, key, members...)
			members = nil
			return cache.Added(ctx)
		}
		query := "SELECT user_id, post_id, created_ms FROM " + t.Name + " ORDER BY user_id, created_ms DESC, post_id DESC"
		err = fixture.EachRow(ctx, host, query, []any{&user, &post, &created}, func() error {
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
		return fmt.Sprintf("%d timelines", cache.Count), cache.Send(ctx)
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
	err := fixture.EachRow(ctx, SocialGraphDB, "SELECT follower_id, followee_id FROM follows ORDER BY follower_id, followee_id",
		[]any{&follower, &followee}, func() error {
			add("followers:"+strconv.FormatInt(followee, 10), follower)
			add("followees:"+strconv.FormatInt(follower, 10), followee)
			return nil
		})
	if err != nil {
		return "", err
	}
	cache, err := fixture.OpenRedis(ctx, SocialGraphRedis)
	if err != nil {
		return "", err
	}
	defer cache.Close()
	for _, key := range order {
		cache.Del(ctx, key)
		cache.SAdd(ctx, key, sets[key]...)
		if err := cache.Added(ctx); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d sets", cache.Count), cache.Send(ctx)
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
	return fixture.CacheRows(ctx, PostStorageDB, query, PostStorageMemcached, into, func() (string, []byte, error) {
		post.PostID = api.ID(id)
		value, err := json.Marshal(&post)
		return "post:" + post.PostID.String(), value, err
	})
}
