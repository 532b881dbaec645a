package data

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"tailor/apps/common/fixture"
	"tailor/apps/social-network/internal/api"
)

// Plan says how much there is.  Everything else follows from Seed.
type Plan struct {
	Seed         uint64
	Users        int // user ids 1..Users
	PostsPerUser int
	HomeTimeline int // entries per home timeline: the newest
	Media        int // media ids 1..Media
}

// SocialNetwork is the plan of the whole application.  1,000 users are about the 962 of the graph that
// DeathStarBench uses; 120,000 posts of about 0.9 kB are 108 MB, more than memcached's default of 64 MB holds, and
// a workload that reads up to 110 entries deep touches nearly all of them.
var SocialNetwork = Plan{Seed: 20210426, Users: 1000, PostsPerUser: 120, HomeTimeline: 200, Media: 200}

const (
	firstPostID  = 1_000_000_000_000_000 // below what unique-id gives (its numbers carry the time), so never equal
	firstPostMS  = 1_704_067_200_000     // 2024-01-01: older than any post that a load composes
	betweenMS    = 250_000               // from one post to the next
	maxURLs      = 5
	maxMentions  = 5
	textLength   = 256
	postURLBytes = 64 // DeathStarBench's compose-post: "http://" and 64 random characters
	mediaBytes   = 4096
)

// Post is one seeded post: Text already carries short URLs, Mentions are user ids, URLs are numbers of URLs.
type Post struct {
	ID        int64
	Author    int32
	Text      string
	Mentions  []int32
	URLs      []int
	CreatedMS int64
}

// Username is the name of a user id.
func Username(user int32) string { return "username_" + strconv.Itoa(int(user)) }

// ShortCode is the short form of URL number n.  Its length differs from what the service makes up, so the two never meet.
func ShortCode(n int) string { return "u" + strconv.Itoa(n) }

// LongURL is URL number n: "http://" and length random characters.
func LongURL(seed uint64, n, length int) string {
	rng := rand.New(rand.NewPCG(seed, 1<<40+uint64(n)))
	return "http://" + fixture.RandomText(rng, length)
}

// Posts is the number of seeded posts.
func (p Plan) Posts() int { return p.Users * p.PostsPerUser }

// author of post n: in every round each user posts once, in an order that changes from round to round.
// An affine map modulo Users is a permutation when its factor is coprime to Users.
func (p Plan) author(n int) int32 {
	round, position := n/p.Users, n%p.Users
	rng := rand.New(rand.NewPCG(p.Seed, 2<<40+uint64(round)))
	factor := 1 + rng.IntN(p.Users)
	for greatestCommonDivisor(factor, p.Users) != 1 {
		factor = 1 + rng.IntN(p.Users)
	}
	return int32((factor*position+rng.IntN(p.Users))%p.Users) + 1
}

func greatestCommonDivisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Post is post number n of 0..Posts()-1, oldest first; each can be made without the others.
func (p Plan) Post(n int) Post {
	rng := rand.New(rand.NewPCG(p.Seed, 3<<40+uint64(n)))
	post := Post{
		ID:        firstPostID + int64(n),
		Author:    p.author(n),
		Mentions:  make([]int32, 0, maxMentions),
		URLs:      make([]int, 0, maxURLs),
		CreatedMS: firstPostMS + int64(n)*betweenMS,
	}
	var text strings.Builder
	for range rng.IntN(maxMentions + 1) {
		mentioned := int32(1 + rng.IntN(p.Users))
		if slices.Contains(post.Mentions, mentioned) {
			continue // a mention counts once, as in the user-mention service
		}
		post.Mentions = append(post.Mentions, mentioned)
		text.WriteString(" @" + Username(mentioned))
	}
	for i := range rng.IntN(maxURLs + 1) {
		number := n*maxURLs + i + 1
		post.URLs = append(post.URLs, number)
		text.WriteString(" " + api.ShortURLPrefix + ShortCode(number))
	}
	post.Text = fixture.RandomText(rng, textLength) + text.String()
	return post
}

// Entry is one line of a timeline.
type Entry struct {
	PostID    int64
	CreatedMS int64
}

// HomeTimelines gives each user's newest HomeTimeline entries, oldest first: the posts of whom the user follows and
// the posts that mention the user, as write-home-timeline would have fanned them out.  Index 0 is empty.
func (p Plan) HomeTimelines(graph Graph) [][]Entry {
	timelines := make([][]Entry, p.Users+1)
	full := 0
	for n := p.Posts() - 1; n >= 0 && full < p.Users; n-- {
		post := p.Post(n)
		receivers := slices.Concat(graph.Followers[post.Author], post.Mentions)
		slices.Sort(receivers)
		for _, user := range slices.Compact(receivers) {
			if len(timelines[user]) == p.HomeTimeline {
				continue
			}
			timelines[user] = append(timelines[user], Entry{post.ID, post.CreatedMS})
			if len(timelines[user]) == p.HomeTimeline {
				full++
			}
		}
	}
	for _, timeline := range timelines {
		slices.Reverse(timeline)
	}
	return timelines
}

// password gives the salt and the hash of "password_<id>": SHA-256 over password and salt, as DeathStarBench stores it.
func (p Plan) password(user int32) (salt, hash string) {
	salt = fixture.RandomText(rand.New(rand.NewPCG(p.Seed, 4<<40+uint64(user))), 32)
	sum := sha256.Sum256([]byte("password_" + strconv.Itoa(int(user)) + salt))
	return salt, hex.EncodeToString(sum[:])
}

// mediaData is the content of medium n.
func (p Plan) mediaData(n int) []byte {
	return []byte(fixture.RandomText(rand.New(rand.NewPCG(p.Seed, 5<<40+uint64(n))), mediaBytes))
}

func (p Post) mentionValues() []api.UserRef {
	values := make([]api.UserRef, 0, len(p.Mentions))
	for _, user := range p.Mentions {
		values = append(values, api.UserRef{UserID: int64(user), Username: Username(user)})
	}
	return values
}

func (p Post) urlValues(seed uint64) []api.URL {
	values := make([]api.URL, 0, len(p.URLs))
	for _, number := range p.URLs {
		short := api.ShortURLPrefix + ShortCode(number)
		values = append(values, api.URL{Short: short, Long: LongURL(seed, number, postURLBytes)})
	}
	return values
}
