package data

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// names collects a flag that may be given several times or with commas.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

// Set adds the names of one occurrence of the flag.
func (n *names) Set(value string) error {
	*n = append(*n, strings.Split(value, ",")...)
	return nil
}

// Seed fills the databases: `seed [--only NAME]... [--urls N --url-length BYTES]`.  With --urls the URL table holds
// numbers 1..N, each long URL of that length, instead of the URLs of the posts.  A table that exists is replaced.
func Seed(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("seed", flag.ContinueOnError)
	var only names
	flags.Var(&only, "only", "fill only this database (user, social-graph, ...); may be repeated")
	urls := flags.Int("urls", 0, "fill url-shorten with URLs 1..N instead of those of the posts")
	length := flags.Int("url-length", postURLBytes, "characters of each long URL after http://, with --urls")
	if err := flags.Parse(args); err != nil {
		return err
	}
	plan := SocialNetwork
	graph := NewGraph(plan.Seed, plan.Users)
	return runTasks(ctx, []task{
		{"user", fill(UserDB, usersTable, plan.userRows())},
		{"social-graph", fill(SocialGraphDB, followsTable, followRows(graph))},
		{"post-storage", fill(PostStorageDB, postsTable, plan.postRows())},
		{"user-timeline", fill(UserTimelineDB, userTimelineTable, plan.userTimelineRows())},
		{"home-timeline", fill(HomeTimelineDB, homeTimelineTable, func() rows { return homeTimelineRows(plan.HomeTimelines(graph)) })},
		{"url-shorten", fill(URLShortenDB, urlsTable, plan.urlRows(*urls, *length))},
		{"media", fill(MediaDB, mediaTable, plan.mediaRows())},
	}, only)
}

// rows gives the next row, or nil after the last.
type rows func() ([]any, error)

// fill is the task that makes one table: COPY, then indices, then VACUUM and a checkpoint, so that the first
// repetition finds the same pages on disk as the last (no hint bits left to set, nothing left to write).
func fill(host string, t table, start func() rows) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		connection, err := openDatabase(ctx, host)
		if err != nil {
			return "", err
		}
		defer connection.Close(ctx)
		for _, statement := range []string{"DROP TABLE IF EXISTS " + t.name, t.create} {
			if _, err := connection.Exec(ctx, statement); err != nil {
				return "", fmt.Errorf("%s: %w", statement, err)
			}
		}
		copied, err := connection.CopyFrom(ctx, pgx.Identifier{t.name}, t.columns, pgx.CopyFromFunc(start()))
		if err != nil {
			return "", fmt.Errorf("copy into %s: %w", t.name, err)
		}
		for _, statement := range append(t.index, "VACUUM (FREEZE, ANALYZE) "+t.name, "CHECKPOINT") {
			if _, err := connection.Exec(ctx, statement); err != nil {
				return "", fmt.Errorf("%s: %w", statement, err)
			}
		}
		return fmt.Sprintf("%d rows of %s", copied, t.name), nil
	}
}

func (p Plan) userRows() func() rows {
	return func() rows {
		return count(p.Users, func(i int) ([]any, error) {
			user := int32(i + 1)
			salt, hash := p.password(user)
			first := fmt.Sprintf("first_name_%d", user)
			last := fmt.Sprintf("last_name_%d", user)
			return []any{int64(user), Username(user), first, last, hash, salt, int64(firstPostMS)}, nil
		})
	}
}

func followRows(graph Graph) func() rows {
	return func() rows {
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

func (p Plan) postRows() func() rows {
	return func() rows {
		return count(p.Posts(), func(n int) ([]any, error) {
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

func (p Plan) userTimelineRows() func() rows {
	return func() rows {
		return count(p.Posts(), func(n int) ([]any, error) {
			return []any{int64(p.author(n)), firstPostID + int64(n), firstPostMS + int64(n)*betweenMS}, nil
		})
	}
}

func homeTimelineRows(timelines [][]Entry) rows {
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
func (p Plan) urlRows(urls, length int) func() rows {
	row := func(number, length int) []any {
		return []any{ShortCode(number), LongURL(p.Seed, number, length)}
	}
	if urls > 0 {
		return func() rows {
			return count(urls, func(i int) ([]any, error) { return row(urls-i, length), nil })
		}
	}
	return func() rows {
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

func (p Plan) mediaRows() func() rows {
	return func() rows {
		return count(p.Media, func(i int) ([]any, error) {
			return []any{int64(i + 1), "png", p.mediaData(i + 1)}, nil
		})
	}
}

// count gives rows 0..n-1.
func count(n int, row func(i int) ([]any, error)) rows {
	next := 0
	return func() ([]any, error) {
		if next == n {
			return nil, nil
		}
		next++
		return row(next - 1)
	}
}
