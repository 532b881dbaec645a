package data

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tailor/apps/common/fixture"
	"tailor/apps/social-network/internal/api"
)

const (
	checkedFollowers = 12  // followers of each author whose home timelines are read, spread over all of them
	checkedSeeds     = 10  // of each timeline's seeded posts, these many are compared word for word
	pageLength       = 50  // entries read at once
	maxPages         = 200 // a timeline longer than this would be a loop
	readersAtOnce    = 4
)

var caches = []string{
	UserMemcached, PostStorageMemcached, URLShortenMemcached, MediaMemcached,
	SocialGraphRedis, UserTimelineRedis, HomeTimelineRedis,
}

// socialCheck is what the check of the whole application composes and where it looks for it.
type socialCheck struct {
	front   *fixture.Caller
	plan    Plan
	authors []checkAuthor
}

// checkAuthor composes one post; readers find it on their home timelines.
type checkAuthor struct {
	user      int32
	mentioned [2]int32
	readers   []int32
}

// newSocialCheck chooses authors: the two with the most followers, two in the middle and two with the fewest.
func newSocialCheck(front *fixture.Caller) *socialCheck {
	plan := SocialNetwork
	graph := NewGraph(plan.Seed, plan.Users)
	users := make([]int32, plan.Users)
	for i := range users {
		users[i] = int32(i + 1)
	}
	slices.SortStableFunc(users, func(a, b int32) int { return len(graph.Followers[b]) - len(graph.Followers[a]) })
	check := &socialCheck{front: front, plan: plan}
	for i, rank := range []int{0, 1, len(users)/2 - 1, len(users) / 2, len(users) - 2, len(users) - 1} {
		author := checkAuthor{user: users[rank], mentioned: [2]int32{users[3+i], users[len(users)-3-i]}}
		followers := graph.Followers[author.user]
		for k := range min(checkedFollowers, len(followers)) {
			author.readers = append(author.readers, followers[k*len(followers)/min(checkedFollowers, len(followers))])
		}
		author.readers = append(author.readers, author.mentioned[:]...)
		slices.Sort(author.readers)
		author.readers = slices.Compact(author.readers)
		check.authors = append(check.authors, author)
	}
	return check
}

// marker begins the text of the author's post, and no other.
func (a checkAuthor) marker() string { return fmt.Sprintf("tailor check of author %d:", a.user) }

func (a checkAuthor) longURLs() []string {
	return []string{fmt.Sprintf("http://check.example/%d/a", a.user), fmt.Sprintf("http://check.example/%d/b", a.user)}
}

func (a checkAuthor) form() url.Values {
	text := a.marker()
	for _, user := range a.mentioned {
		text += " @" + Username(user)
	}
	return url.Values{
		"username": {Username(a.user)}, "user_id": {strconv.Itoa(int(a.user))}, "post_type": {"0"},
		"text": {text + " " + strings.Join(a.longURLs(), " ")}, "media_ids": {`["1","2"]`}, "media_types": {`["png","png"]`},
	}
}

func writePosts(ctx context.Context, check *socialCheck) error {
	for _, author := range check.authors {
		if err := check.front.PostForm(ctx, api.PathComposePost, author.form(), nil); err != nil {
			return fmt.Errorf("composing for %s: %w", Username(author.user), err)
		}
	}
	var lost fixture.Losses
	views := check.read(ctx, &lost)
	check.compareURLs(ctx, views, &lost)
	return lost.Report("%d posts composed and read on %d timelines", len(check.authors), len(views))
}

// verifyPosts reads every timeline with warm caches and with empty ones, which must give the same.
func verifyPosts(ctx context.Context, check *socialCheck) error {
	var lost fixture.Losses
	warm := check.read(ctx, &lost)
	check.compareURLs(ctx, warm, &lost)
	if err := fixture.Flush(ctx, caches); err != nil {
		return err
	}
	cold := check.read(ctx, &lost)
	check.compareURLs(ctx, cold, &lost)
	for name, posts := range warm {
		if ids, again := idsOf(posts), idsOf(cold[name]); !slices.Equal(ids, again) {
			lost.Add("%s: %d posts with caches, %d without, and they are not the same", name, len(ids), len(again))
		}
	}
	return lost.Report("%d posts read on %d timelines, with and without caches", len(check.authors), len(warm))
}

func idsOf(posts []api.Post) []api.ID {
	ids := make([]api.ID, 0, len(posts))
	for _, post := range posts {
		ids = append(ids, post.PostID)
	}
	return ids
}

// read reads the timelines of all authors and readers, whole, and checks what must be on each.
func (c *socialCheck) read(ctx context.Context, lost *fixture.Losses) map[string][]api.Post {
	type view struct {
		path   string
		user   int32
		wanted []checkAuthor
	}
	views := map[string]*view{}
	add := func(path string, user int32, author checkAuthor) {
		name := fmt.Sprintf("%s of user %d", strings.Split(path, "/")[2], user)
		if views[name] == nil {
			views[name] = &view{path: path, user: user}
		}
		views[name].wanted = append(views[name].wanted, author)
	}
	for _, author := range c.authors {
		add(api.PathReadUserTimeline, author.user, author)
		for _, reader := range author.readers {
			add(api.PathReadHomeTimeline, reader, author)
		}
	}
	var mutex sync.Mutex
	var waiting sync.WaitGroup
	places := make(chan struct{}, readersAtOnce)
	found := map[string][]api.Post{}
	for name, v := range views {
		waiting.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			posts, err := c.timeline(ctx, v.path, v.user)
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil {
				lost.Add("%s: %v", name, err)
				return
			}
			found[name] = posts
			seeded := c.plan.HomeTimeline
			if v.path == api.PathReadUserTimeline {
				seeded = c.plan.PostsPerUser
			}
			c.compare(name, posts, v.wanted, seeded, lost)
		})
	}
	waiting.Wait()
	slices.Sort(*lost)
	return found
}

// timeline reads a whole timeline, page after page.
func (c *socialCheck) timeline(ctx context.Context, path string, user int32) ([]api.Post, error) {
	var all []api.Post
	for page := range maxPages {
		var posts []api.Post
		query := url.Values{
			"user_id": {strconv.Itoa(int(user))},
			"start":   {strconv.Itoa(page * pageLength)}, "stop": {strconv.Itoa((page + 1) * pageLength)},
		}
		if err := c.front.Get(ctx, path, query, &posts); err != nil {
			return nil, err
		}
		all = append(all, posts...)
		if len(posts) < pageLength {
			return all, nil
		}
	}
	return all, nil
}

// compare checks one timeline: each post once, newest first, the check's own posts as composed, the seeded posts
// at the end and unchanged.
func (c *socialCheck) compare(name string, posts []api.Post, wanted []checkAuthor, seeded int, lost *fixture.Losses) {
	seen := map[api.ID]bool{}
	for i, post := range posts {
		if seen[post.PostID] {
			lost.Add("%s: post %s is there twice", name, post.PostID)
		}
		seen[post.PostID] = true
		if i > 0 && post.TimestampMS > posts[i-1].TimestampMS {
			lost.Add("%s: post %s is newer than the one before it", name, post.PostID)
		}
	}
	for _, author := range wanted {
		at := slices.IndexFunc(posts, func(post api.Post) bool { return strings.HasPrefix(post.Text, author.marker()) })
		if at < 0 {
			lost.Add("%s: the post of user %d is missing among %d", name, author.user, len(posts))
		} else if reason := author.differs(posts[at]); reason != "" {
			lost.Add("%s: the post of user %d: %s", name, author.user, reason)
		}
	}
	old := slices.DeleteFunc(slices.Clone(posts), func(post api.Post) bool {
		return post.PostID < firstPostID || post.PostID >= firstPostID+api.ID(c.plan.Posts())
	})
	if len(old) != seeded {
		lost.Add("%s: %d of %d seeded posts", name, len(old), seeded)
	}
	for i := 0; i < len(old); i += max(1, len(old)/checkedSeeds) {
		kept := c.plan.Post(int(old[i].PostID - firstPostID))
		if old[i].Text != kept.Text || old[i].Creator.UserID != int64(kept.Author) || old[i].TimestampMS != kept.CreatedMS {
			lost.Add("%s: the seeded post %s has changed", name, old[i].PostID)
		}
	}
}

// differs says in what a post that was read is not the one that was composed; empty if in nothing.
func (a checkAuthor) differs(post api.Post) string {
	var mentions []api.UserRef
	var urls []api.URL
	var media []api.MediaRef
	for list, into := range map[*json.RawMessage]any{&post.UserMentions: &mentions, &post.URLs: &urls, &post.Media: &media} {
		if err := json.Unmarshal(*list, into); err != nil {
			return err.Error()
		}
	}
	if post.Creator.UserID != int64(a.user) || post.Creator.Username != Username(a.user) {
		return fmt.Sprintf("creator %v", post.Creator)
	}
	var users []int64
	for _, mention := range mentions {
		users = append(users, mention.UserID)
	}
	if !slices.Equal(sorted(users), sorted([]int64{int64(a.mentioned[0]), int64(a.mentioned[1])})) {
		return fmt.Sprintf("mentions %v instead of %v", users, a.mentioned)
	}
	var longs []string
	for _, pair := range urls {
		longs = append(longs, pair.Long)
		if !strings.Contains(post.Text, pair.Short) {
			return fmt.Sprintf("%s is not in its text", pair.Short)
		}
	}
	if !slices.Equal(sorted(longs), a.longURLs()) {
		return fmt.Sprintf("URLs %v instead of %v", longs, a.longURLs())
	}
	wanted := []api.MediaRef{{MediaID: "1", MediaType: "png"}, {MediaID: "2", MediaType: "png"}}
	if !slices.Equal(media, wanted) {
		return fmt.Sprintf("media %v", media)
	}
	return ""
}

func sorted[T int64 | string](values []T) []T {
	copied := slices.Clone(values)
	slices.Sort(copied)
	return copied
}

// compareURLs resolves the short URLs of the check's posts at the service that keeps them.
func (c *socialCheck) compareURLs(ctx context.Context, views map[string][]api.Post, lost *fixture.Losses) {
	pairs := map[api.URL]bool{}
	for _, posts := range views {
		for _, post := range posts {
			if !strings.HasPrefix(post.Text, "tailor check of author ") {
				continue
			}
			var urls []api.URL
			if err := json.Unmarshal(post.URLs, &urls); err != nil {
				lost.Add("post %s: %v", post.PostID, err)
			}
			for _, pair := range urls {
				pairs[pair] = true
			}
		}
	}
	for pair := range pairs {
		resolve(ctx, c.front, "http://url-shorten:8080"+api.PathResolve, pair, lost)
	}
}
