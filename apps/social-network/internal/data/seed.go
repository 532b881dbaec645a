package data

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"

	"tailor/apps/common/fixture"
)

// Seed fills the databases: `seed [--only NAME]... [--urls N --url-length BYTES]`.  With --urls the URL table holds
// numbers 1..N, each long URL of that length, instead of the URLs of the posts.  A table that exists is replaced.
func Seed(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("seed", flag.ContinueOnError)
	var only fixture.Names
	flags.Var(&only, "only", "fill only this database (user, social-graph, ...); may be repeated")
	urls := flags.Int("urls", 0, "fill url-shorten with URLs 1..N instead of those of the posts")
	length := flags.Int("url-length", postURLBytes, "characters of each long URL after http://, with --urls")
	if err := flags.Parse(args); err != nil {
		return err
	}
	plan := SocialNetwork
	graph := NewGraph(plan.Seed, plan.Users)
	return fixture.RunTasks(ctx, []fixture.Task{
		{Name: "user", Run: fixture.Fill(UserDB, usersTable, plan.userRows())},
		{Name: "social-graph", Run: fixture.Fill(SocialGraphDB, followsTable, followRows(graph))},
		{Name: "post-storage", Run: fixture.Fill(PostStorageDB, postsTable, plan.postRows())},
		{Name: "user-timeline", Run: fixture.Fill(UserTimelineDB, userTimelineTable, plan.userTimelineRows())},
		{Name: "home-timeline", Run: fixture.Fill(HomeTimelineDB, homeTimelineTable, func() fixture.Rows { return homeTimelineRows(plan.HomeTimelines(graph)) })},
		{Name: "url-shorten", Run: fixture.Fill(URLShortenDB, urlsTable, plan.urlRows(*urls, *length))},
		{Name: "media", Run: fixture.Fill(MediaDB, mediaTable, plan.mediaRows())},
	}, only)
}

func (p Plan) userRows() func() fixture.Rows {
	return func() fixture.Rows {
		return fixture.Count(p.Users, func(i int) ([]any, error) {
			user := int32(i + 1)
			salt, hash := p.password(user)
			first := fmt.Sprintf("first_name_%d", user)
			last := fmt.Sprintf("last_name_%d", user)
			return []any{int64(user), Username(user), first, last, hash, salt, int64(firstPostMS)}, nil
		})
	}
}

func followRows(graph Graph) func() fixture.Rows {
	return func() fixture.Rows {
		follower, next := 1, 0
		return func() ([]any, error) {
			for follower < len(graph.Followees) && next == len(graph.Followees[follower]) {
				follower, next = follower+1, 0
			}
			if follower == len(graph.Followees) {
				return nil, nil
			}
			next++
			return []any{int64(follower), int64(graph.Followees[follower][next-1])}, nil
		}
	}
}

func (p Plan) postRows() func() fixture.Rows {
	return func() fixture.Rows {
		return fixture.Count(p.Posts(), func(n int) ([]any, error) {
			post := p.Post(n)
			mentions, err := json.Marshal(post.mentionValues())
			if err != nil {
				return nil, err
			}
			urls, err := json.Marshal(post.urlValues(p.Seed))
			if err != nil {
				return nil, err
			}
			return []any{
				post.ID, int64(post.Author), Username(post.Author), post.Text, mentions, urls, []byte("[]"), int32(0), post.CreatedMS,
			}, nil
		})
	}
}

func (p Plan) userTimelineRows() func() fixture.Rows {
	return func() fixture.Rows {
		return fixture.Count(p.Posts(), func(n int) ([]any, error) {
			return []any{int64(p.author(n)), firstPostID + int64(n), firstPostMS + int64(n)*betweenMS}, nil
		})
	}
}

func homeTimelineRows(timelines [][]Entry) fixture.Rows {
	user, next := 1, 0
	return func() ([]any, error) {
		for user < len(timelines) && next == len(timelines[user]) {
			user, next = user+1, 0
		}
		if user == len(timelines) {
			return nil, nil
		}
		next++
		entry := timelines[user][next-1]
		return []any{int64(user), entry.PostID, entry.CreatedMS}, nil
	}
}

// urlRows are URLs 1..urls, or those of the posts where urls is 0.
func (p Plan) urlRows(urls, length int) func() fixture.Rows {
	row := func(number, length int) []any {
		return []any{ShortCode(number), LongURL(p.Seed, number, length)}
	}
	if urls > 0 {
		return func() fixture.Rows {
			return fixture.Count(urls, func(i int) ([]any, error) { return row(urls-i, length), nil })
		}
	}
	return func() fixture.Rows {
		n := -1
		var left []int
		return func() ([]any, error) {
			for len(left) == 0 {
				if n++; n == p.Posts() {
					return nil, nil
				}
				left = p.Post(n).URLs
			}
			number := left[0]
			left = left[1:]
			return row(number, postURLBytes), nil
		}
	}
}

func (p Plan) mediaRows() func() fixture.Rows {
	return func() fixture.Rows {
		return fixture.Count(p.Media, func(i int) ([]any, error) {
			return []any{int64(i + 1), "png", p.mediaData(i + 1)}, nil
		})
	}
}
