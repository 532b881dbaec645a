// Package socialgraph knows who follows whom: sets in a redis in front of a database.
//
// A set that redis has is never partial; the rule and its lease are those of package timeline, with sets in the place
// of sorted sets.
package socialgraph

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
)

const (
	leaseTime   = 5 * time.Second
	dropTimeout = time.Second
)

// changeScript adds or removes one member (ARGV: SADD or SREM, then a member for each set) of each set that is there.
// KEYS alternate set and lease. A set that cannot take the member is dropped and the error returned.
var changeScript = redis.NewScript(`
local failure = nil
for i = 1, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    local result = redis.pcall(ARGV[1], KEYS[i], ARGV[(i + 1) / 2 + 1])
    if type(result) == 'table' and result.err then
      redis.call('DEL', KEYS[i])
      failure = failure or result
    end
  end
end
for i = 2, #KEYS, 2 do redis.call('DEL', KEYS[i]) end
return failure or redis.status_reply('OK')
`)

// fillScript stores a rebuilt set (ARGV: lease, then members) if the lease is still held. In slices, because Lua's
// unpack has a limit of some 8,000.
var fillScript = redis.NewScript(`
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[2])
for i = 2, #ARGV, 1000 do
  redis.call('SADD', KEYS[1], unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
return 1
`)

// side is one direction of the relation: whose column is given and whose is wanted.
type side struct{ prefix, wanted, given string }

var (
	followers = side{"followers:", "follower_id", "followee_id"}
	followees = side{"followees:", "followee_id", "follower_id"}
)

func (d side) key(user int64) string { return d.prefix + strconv.FormatInt(user, 10) }

type graph struct {
	database *service.Database
	cache    *service.Redis
	users    *service.Client
}

// New adds the role's routes.
func New(ctx context.Context, s *service.Service) error {
	database, err := s.Database(ctx, "social-graph-db")
	if err != nil {
		return err
	}
	cache, err := s.Redis("social-graph-redis")
	if err != nil {
		return err
	}
	users, err := s.Client(api.User)
	if err != nil {
		return err
	}
	g := &graph{database, cache, users}
	s.Handle("GET "+api.PathFollowers, g.reader(followers))
	s.Handle("GET "+api.PathFollowees, g.reader(followees))
	s.Handle("POST "+api.PathFollow, g.changer("SADD", "INSERT follows",
		"INSERT INTO follows (follower_id, followee_id) VALUES ($1, $2) ON CONFLICT DO NOTHING"))
	s.Handle("POST "+api.PathUnfollow, g.changer("SREM", "DELETE follows",
		"DELETE FROM follows WHERE follower_id = $1 AND followee_id = $2"))
	return nil
}

func (g *graph) reader(direction side) service.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		user, err := service.IntegerOf(r.URL.Query(), "user_id")
		if err != nil {
			return err
		}
		related, err := g.read(r.Context(), direction, user)
		if err != nil {
			return err
		}
		return service.WriteJSON(w, api.UserIDs{UserIDs: related})
	}
}

// read is the users related to one. An empty set cannot be stored in redis: users without relations cost a query.
func (g *graph) read(ctx context.Context, direction side, user int64) ([]int64, error) {
	key := direction.key(user)
	var members []string
	err := g.cache.Do(ctx, "SMEMBERS", func(ctx context.Context, client *redis.Client) (err error) {
		members, err = client.SMembers(ctx, key).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return g.rebuild(ctx, direction, user)
	}
	related := make([]int64, len(members))
	for i, member := range members {
		if related[i], err = strconv.ParseInt(member, 10, 64); err != nil {
			return nil, err
		}
	}
	return related, nil
}

func (g *graph) rebuild(ctx context.Context, direction side, user int64) ([]int64, error) {
	key := direction.key(user)
	lease := rand.Text()
	isHeld := false
	err := g.cache.Do(ctx, "SET lease", func(ctx context.Context, client *redis.Client) error {
		answer, err := client.SetArgs(ctx, leaseOf(key), lease, redis.SetArgs{Mode: "NX", TTL: leaseTime}).Result()
		isHeld = answer == "OK"
		return err
	})
	if err != nil {
		return nil, err
	}
	related := []int64{}
	arguments := []any{lease}
	err = g.database.Select(ctx, "SELECT follows",
		"SELECT "+direction.wanted+" FROM follows WHERE "+direction.given+" = $1",
		func(scan func(...any) error) error {
			var other int64
			if err := scan(&other); err != nil {
				return err
			}
			related, arguments = append(related, other), append(arguments, other)
			return nil
		}, user)
	if err != nil || !isHeld {
		return related, err
	}
	err = g.cache.Do(ctx, "EVALSHA fill", func(ctx context.Context, client *redis.Client) error {
		return fillScript.Run(ctx, client, []string{key, leaseOf(key)}, arguments...).Err()
	})
	return related, err
}

func leaseOf(key string) string { return "lease:" + key }

func (g *graph) changer(command, operation, statement string) service.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := r.ParseForm(); err != nil {
			return service.BadRequest("form: %v", err)
		}
		follower, followee, err := g.pair(r.Context(), r.PostForm)
		if err != nil {
			return err
		}
		ctx := r.Context()
		keys := []string{followers.key(followee), "", followees.key(follower), ""}
		keys[1], keys[3] = leaseOf(keys[0]), leaseOf(keys[2])
		if _, err = g.database.Execute(ctx, operation, statement, follower, followee); err == nil {
			err = g.cache.Do(ctx, "EVALSHA change", func(ctx context.Context, client *redis.Client) error {
				return changeScript.Run(ctx, client, keys, command, follower, followee).Err()
			})
		}
		if err != nil {
			g.drop(ctx, keys)
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

// drop makes redis forget sets that may be stale. The request has failed already; what fails here is in the span.
func (g *graph) drop(ctx context.Context, keys []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	_ = g.cache.Do(ctx, "DEL", func(ctx context.Context, client *redis.Client) error {
		return client.Del(ctx, keys...).Err()
	})
}

// pair is who follows and who is followed: by user_id and followee_id or, as the original allows, by user_name and
// followee_name.
func (g *graph) pair(ctx context.Context, form url.Values) (follower, followee int64, err error) {
	if !form.Has("user_name") {
		if follower, err = service.IntegerOf(form, "user_id"); err != nil {
			return 0, 0, err
		}
		followee, err = service.IntegerOf(form, "followee_id")
		return follower, followee, err
	}
	names := []string{form.Get("user_name"), form.Get("followee_name")}
	var found api.Users
	if err = g.users.PostJSON(ctx, api.PathUsers, api.Usernames{Usernames: names}, &found); err != nil {
		return 0, 0, err
	}
	if len(found.Users) != len(names) {
		return 0, 0, service.BadRequest("%q are not both users", names)
	}
	return found.Users[0].UserID, found.Users[1].UserID, nil
}
