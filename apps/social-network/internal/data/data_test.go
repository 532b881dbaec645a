package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"tailor/apps/common/fixture"
)

// TestGraphIsHeavyTailed states what the social graph must look like: the expected mean, and a tail that a binomial
// (random) graph of the same mean could not have.
func TestGraphIsHeavyTailed(t *testing.T) {
	graph := NewGraph(SocialNetwork.Seed, SocialNetwork.Users)
	degrees := make([]int, 0, SocialNetwork.Users)
	total := 0
	for user := 1; user <= SocialNetwork.Users; user++ {
		degrees = append(degrees, len(graph.Followers[user]))
		total += len(graph.Followers[user])
	}
	slices.Sort(degrees)
	mean := float64(total) / float64(len(degrees))
	if mean < 18 || mean > 22 {
		t.Errorf("mean number of followers is %.1f, wanted about %d", mean, follows)
	}
	median, most := degrees[len(degrees)/2], degrees[len(degrees)-1]
	if float64(median) > 0.75*mean {
		t.Errorf("median %d is not well below the mean %.1f: no heavy tail", median, mean)
	}
	if most < 150 || most > 600 {
		t.Errorf("the most followed user has %d followers; wanted some hundreds (Reed98's has 313)", most)
	}
	top := 0
	for _, degree := range degrees[len(degrees)-len(degrees)/100:] {
		top += degree
	}
	if share := float64(top) / float64(total); share < 0.08 {
		t.Errorf("the most followed 1 %% have %.1f %% of all followers; a random graph's have 1.6 %%", 100*share)
	}
	t.Logf("mean %.1f median %d p99 %d max %d", mean, median, degrees[len(degrees)*99/100], most)
}

func TestGraphIsConsistent(t *testing.T) {
	for _, users := range []int{1, 2, 3, 50, 1000} {
		graph := NewGraph(7, users)
		for user := 1; user <= users; user++ {
			if users > 1 && len(graph.Followees[user]) == 0 {
				t.Errorf("%d users: user %d follows nobody", users, user)
			}
			if len(slices.Compact(slices.Clone(graph.Followees[user]))) != len(graph.Followees[user]) {
				t.Errorf("%d users: user %d follows somebody twice", users, user)
			}
			for _, followee := range graph.Followees[user] {
				if followee == int32(user) {
					t.Errorf("%d users: user %d follows itself", users, user)
				}
				if !slices.Contains(graph.Followers[followee], int32(user)) {
					t.Errorf("%d users: %d follows %d but is not among its followers", users, user, followee)
				}
			}
		}
	}
}

// TestEveryUserPostsOnceARound makes sure that author is a permutation in every round.
func TestEveryUserPostsOnceARound(t *testing.T) {
	plan := Plan{Seed: 3, Users: 100, PostsPerUser: 5, HomeTimeline: 20}
	for round := range plan.PostsPerUser {
		seen := map[int32]bool{}
		for position := range plan.Users {
			seen[plan.author(round*plan.Users+position)] = true
		}
		if len(seen) != plan.Users || seen[0] {
			t.Errorf("round %d: %d different authors of %d", round, len(seen), plan.Users)
		}
	}
}

func TestHomeTimelinesHoldTheNewestPosts(t *testing.T) {
	plan := Plan{Seed: 3, Users: 60, PostsPerUser: 20, HomeTimeline: 50}
	graph := NewGraph(plan.Seed, plan.Users)
	timelines := plan.HomeTimelines(graph)
	for user := int32(1); user <= int32(plan.Users); user++ {
		var wanted []Entry
		for n := range plan.Posts() {
			post := plan.Post(n)
			if slices.Contains(graph.Followees[user], post.Author) || slices.Contains(post.Mentions, user) {
				wanted = append(wanted, Entry{post.ID, post.CreatedMS})
			}
		}
		wanted = wanted[max(0, len(wanted)-plan.HomeTimeline):]
		if !slices.Equal(timelines[user], wanted) {
			t.Fatalf("user %d: %d entries, wanted %d", user, len(timelines[user]), len(wanted))
		}
	}
}

// TestTheDataNeverChange pins the data to a hash: another hash means that kept volumes and earlier results no
// longer belong to this program, on any machine and with any version of Go.
func TestTheDataNeverChange(t *testing.T) {
	plan := Plan{Seed: SocialNetwork.Seed, Users: 100, PostsPerUser: 10, HomeTimeline: 30, Media: 2}
	digest := func() string {
		graph := NewGraph(plan.Seed, plan.Users)
		hash := sha256.New()
		fmt.Fprintln(hash, graph, plan.HomeTimelines(graph))
		err := fixture.Write(hash,
			plan.userRows()(), followRows(graph)(), plan.postRows()(), plan.userTimelineRows()(), plan.urlRows(0, 0)(),
			plan.urlRows(50, 200)(), plan.mediaRows()(), homeTimelineRows(plan.HomeTimelines(graph)),
		)
		if err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(hash.Sum(nil))
	}
	first, second := digest(), digest()
	if first != second {
		t.Errorf("two runs differ: %s and %s", first, second)
	}
	const kept = "ddb720faab2f3bd77e17d5924cca0cedd429c43c1886d5ac545485311a42c400"
	if first != kept {
		t.Errorf("the data have changed: %s, kept %s", first, kept)
	}
}
