package data

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tailor/apps/common/fixture"
	"tailor/apps/social-network/internal/api"
)

func marshalled(t *testing.T, value any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// composed is the author's post as a correct application shows it.
func composed(t *testing.T, author checkAuthor) api.Post {
	t.Helper()
	longs := author.longURLs()
	urls := []api.URL{{Short: api.ShortURLPrefix + "aaa", Long: longs[0]}, {Short: api.ShortURLPrefix + "bbb", Long: longs[1]}}
	var mentions []api.UserRef
	text := author.marker()
	for _, user := range author.mentioned {
		mentions = append(mentions, api.UserRef{UserID: int64(user), Username: Username(user)})
		text += " @" + Username(user)
	}
	return api.Post{
		PostID:       firstPostID * 2,
		Creator:      api.UserRef{UserID: int64(author.user), Username: Username(author.user)},
		Text:         text + " " + urls[0].Short + " " + urls[1].Short,
		UserMentions: marshalled(t, mentions), URLs: marshalled(t, urls),
		Media:       marshalled(t, []api.MediaRef{{MediaID: "1", MediaType: "png"}, {MediaID: "2", MediaType: "png"}}),
		TimestampMS: firstPostMS * 2,
	}
}

// timelineOf is a user's timeline, newest first: the check's post and then the seeded ones.
func timelineOf(t *testing.T, plan Plan, author checkAuthor) []api.Post {
	t.Helper()
	posts := []api.Post{composed(t, author)}
	for n := plan.Posts() - 1; n >= 0; n-- {
		seeded := plan.Post(n)
		if seeded.Author != author.user {
			continue
		}
		posts = append(posts, api.Post{
			PostID: api.ID(seeded.ID), Creator: api.UserRef{UserID: int64(seeded.Author)}, Text: seeded.Text,
			TimestampMS: seeded.CreatedMS,
		})
	}
	return posts
}

// TestTheCheckSeesEveryLoss breaks a correct timeline in each way that the check exists for.
func TestTheCheckSeesEveryLoss(t *testing.T) {
	plan := Plan{Seed: 3, Users: 50, PostsPerUser: 12, HomeTimeline: 20}
	author := checkAuthor{user: 7, mentioned: [2]int32{3, 9}}
	check := &socialCheck{plan: plan}
	compare := func(posts []api.Post) fixture.Losses {
		var lost fixture.Losses
		check.compare("timeline", posts, []checkAuthor{author}, plan.PostsPerUser, &lost)
		return lost
	}
	if lost := compare(timelineOf(t, plan, author)); len(lost) > 0 {
		t.Fatalf("a correct timeline: %v", lost)
	}
	for name, breakIt := range map[string]func(posts []api.Post) []api.Post{
		"is missing":      func(posts []api.Post) []api.Post { return posts[1:] },
		"is there twice":  func(posts []api.Post) []api.Post { return slices.Insert(posts, 1, posts[1]) },
		"11 of 12 seeded": func(posts []api.Post) []api.Post { return slices.Delete(posts, 4, 5) },
		"is newer":        func(posts []api.Post) []api.Post { posts[3], posts[4] = posts[4], posts[3]; return posts },
		"has changed":     func(posts []api.Post) []api.Post { posts[2].Text = "x"; return posts },
		"mentions":        func(posts []api.Post) []api.Post { posts[0].UserMentions = json.RawMessage("[]"); return posts },
		"URLs":            func(posts []api.Post) []api.Post { posts[0].URLs = json.RawMessage("[]"); return posts },
		"media":           func(posts []api.Post) []api.Post { posts[0].Media = json.RawMessage("[]"); return posts },
		"creator":         func(posts []api.Post) []api.Post { posts[0].Creator.UserID = 8; return posts },
		"not in its text": func(posts []api.Post) []api.Post { posts[0].Text = author.marker(); return posts },
	} {
		if lost := compare(breakIt(timelineOf(t, plan, author))); !strings.Contains(fmt.Sprint(lost), name) {
			t.Errorf("%q: found %v", name, lost)
		}
	}
}

// TestTheCheckLooksEverywhere: popular and lonely authors, each read by followers and by those it mentions.
func TestTheCheckLooksEverywhere(t *testing.T) {
	check := newSocialCheck(nil)
	if len(check.authors) != 6 {
		t.Fatalf("%d authors", len(check.authors))
	}
	for i, author := range check.authors {
		for _, user := range author.mentioned {
			if user == author.user || !slices.Contains(author.readers, user) {
				t.Errorf("author %d mentions %d, readers %v", author.user, user, author.readers)
			}
		}
		if wanted := checkedFollowers; i < 2 && len(author.readers) < wanted {
			t.Errorf("popular author %d has %d readers", author.user, len(author.readers))
		}
	}
}

// TestAPostTakesAboutAKilobyte: the data must be larger than a default cache for its size to matter.
func TestAPostTakesAboutAKilobyte(t *testing.T) {
	plan, total, sample := SocialNetwork, 0, 500
	for n := range sample {
		post := plan.Post(n)
		value := api.Post{
			PostID: api.ID(post.ID), Creator: api.UserRef{UserID: int64(post.Author), Username: Username(post.Author)},
			Text: post.Text, UserMentions: marshalled(t, post.mentionValues()), URLs: marshalled(t, post.urlValues(plan.Seed)),
			Media: json.RawMessage("[]"), TimestampMS: post.CreatedMS,
		}
		total += len(marshalled(t, value))
	}
	mean := total / sample
	if mean < 800 || mean > 1100 {
		t.Errorf("a post has %d bytes of JSON", mean)
	}
	if all := mean * plan.Posts(); all < 64<<20*3/2 {
		t.Errorf("all posts have %d bytes: too little for a cache of 64 MiB to be short", all)
	}
}
