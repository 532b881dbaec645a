package socialgraph

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"tailor/apps/common/storetest"
)

func TestSetsFollowTheDatabaseAndSurviveEviction(t *testing.T) {
	s := storetest.Service(t, "social-graph")
	database := storetest.Database(t, s,
		"CREATE TABLE follows (follower_id bigint, followee_id bigint, PRIMARY KEY (follower_id, followee_id))")
	cache, address := storetest.Redis(t, s)
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	g := &graph{database: database, cache: cache}
	follow := g.changer("SADD", "INSERT follows", "INSERT INTO follows VALUES ($1, $2) ON CONFLICT DO NOTHING")
	unfollow := g.changer("SREM", "DELETE follows", "DELETE FROM follows WHERE follower_id = $1 AND followee_id = $2")
	change := func(how func(http.ResponseWriter, *http.Request) error, form string) {
		t.Helper()
		request := httptest.NewRequest("POST", "/", strings.NewReader(form))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if err := how(httptest.NewRecorder(), request); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(direction side, user int64, want ...int64) {
		t.Helper()
		got, err := g.read(t.Context(), direction, user)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s%d are %v, want %v; %v", direction.prefix, user, got, want, err)
		}
	}
	change(follow, "user_id=1&followee_id=9")
	if n := client.Exists(t.Context(), "followers:9").Val(); n != 0 {
		t.Error("a write to a set that is not in redis made one")
	}
	expect(followers, 9, 1)
	change(follow, "user_id=2&followee_id=9")
	change(follow, "user_id=2&followee_id=9")
	expect(followers, 9, 1, 2)
	expect(followees, 2, 9)
	client.FlushAll(t.Context())
	change(follow, "user_id=3&followee_id=9")
	expect(followers, 9, 1, 2, 3)
	change(unfollow, "user_id=1&followee_id=9")
	expect(followers, 9, 2, 3)
	expect(followees, 1)
	if n := client.SCard(t.Context(), "followers:9").Val(); n != 2 {
		t.Errorf("redis holds %d followers", n)
	}
}
