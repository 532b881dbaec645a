// Package api is the language that the logic services of the social network speak with each other: JSON over
// HTTP/1.1. One package holds all of it, so that a caller and its service cannot drift apart.
package api

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Names of the logic services, which are also their roles and their compose services.
const (
	ComposePost       = "compose-post"
	Text              = "text"
	UserMention       = "user-mention"
	URLShorten        = "url-shorten"
	UniqueID          = "unique-id"
	Media             = "media"
	User              = "user"
	UserTimeline      = "user-timeline"
	HomeTimeline      = "home-timeline"
	WriteHomeTimeline = "write-home-timeline"
	SocialGraph       = "social-graph"
	PostStorage       = "post-storage"
)

// ShortURLPrefix comes before the code in a short URL as a reader sees it; the store keeps the code alone.
const ShortURLPrefix = "http://short-url/"

// MaxNameBytes bounds a username: with its prefix it must fit into a key of memcached (250 bytes).
const MaxNameBytes = 64

// ID is a 64-bit number that travels as a decimal string, because JSON's readers round large numbers.
type ID int64

// String is the decimal form.
func (i ID) String() string { return strconv.FormatInt(int64(i), 10) }

// MarshalJSON writes a quoted decimal.
func (i ID) MarshalJSON() ([]byte, error) {
	text := make([]byte, 0, 22)
	text = append(text, '"')
	text = strconv.AppendInt(text, int64(i), 10)
	return append(text, '"'), nil
}

// UnmarshalJSON reads a quoted decimal, or a plain number.
func (i *ID) UnmarshalJSON(text []byte) error {
	number, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*i = ID(number)
	return err
}

// UserRef names a user: the creator of a post or somebody whom it mentions.
type UserRef struct {
	UserID   int64  `json:"user_id"`
	Username string `json:"username"`
}

// URL is a short URL and what it stands for.
type URL struct {
	Short string `json:"short"`
	Long  string `json:"long"`
}

// MediaRef names a picture or film of a post.
type MediaRef struct {
	MediaID   string `json:"media_id"`
	MediaType string `json:"media_type"`
}

// Post is a post as clients see it. The lists are written once, by compose-post, and passed on as they are.
type Post struct {
	PostID       ID              `json:"post_id"`
	Creator      UserRef         `json:"creator"`
	Text         string          `json:"text"`
	UserMentions json.RawMessage `json:"user_mentions"`
	URLs         json.RawMessage `json:"urls"`
	Media        json.RawMessage `json:"media"`
	PostType     int             `json:"post_type"`
	TimestampMS  int64           `json:"timestamp_ms"`
}

// Paths of the internal calls. Those that clients use too are the original's.
const (
	PathComposePost       = "/wrk2-api/post/compose"       // POST, form
	PathReadUserTimeline  = "/wrk2-api/user-timeline/read" // GET user_id, start, stop -> [Post]
	PathReadHomeTimeline  = "/wrk2-api/home-timeline/read" // GET user_id, start, stop -> [Post]
	PathRegister          = "/wrk2-api/user/register"      // POST, form
	PathFollow            = "/wrk2-api/user/follow"        // POST, form
	PathUnfollow          = "/wrk2-api/user/unfollow"      // POST, form
	PathUploadMedia       = "/upload-media"                // POST, the data as body or multipart -> MediaRef
	PathGetMedia          = "/get-media"                   // GET media_id -> the data
	PathShorten           = "/urls/shorten"                // POST ShortenRequest or form -> URLs
	PathResolve           = "/urls/resolve"                // GET short -> URL
	PathUniqueID          = "/unique-id"                   // GET -> Identifier
	PathText              = "/text"                        // POST TextRequest -> ComposedText
	PathMentions          = "/mentions/resolve"            // POST Usernames -> Users
	PathUsers             = "/users/lookup"                // POST Usernames -> Users
	PathCreator           = "/users/creator"               // GET user_id, username -> UserRef
	PathComposeMedia      = "/media/compose"               // POST MediaRequest -> [MediaRef]
	PathStorePost         = "/posts"                       // POST Post
	PathReadPosts         = "/posts"                       // GET ids=1,2,3 -> [Post] in that order
	PathWriteUserTimeline = "/user-timeline/write"         // POST TimelineEntry
	PathWriteHomeTimeline = "/home-timeline/write"         // POST FanoutRequest
	PathFollowers         = "/followers"                   // GET user_id -> UserIDs
	PathFollowees         = "/followees"                   // GET user_id -> UserIDs
)

// ShortenRequest asks for the short forms of URLs.
type ShortenRequest struct {
	URLs []string `json:"urls"`
}

// URLs answers a ShortenRequest, in its order.
type URLs struct {
	URLs []URL `json:"urls"`
}

// Identifier is a new, unique, increasing number.
type Identifier struct {
	ID ID `json:"id"`
}

// TextRequest is the text of a post as its author wrote it.
type TextRequest struct {
	Text string `json:"text"`
}

// ComposedText is the text with short URLs, and what it mentions: lists as JSON, to be passed on.
type ComposedText struct {
	Text         string    `json:"text"`
	UserMentions []UserRef `json:"user_mentions"`
	URLs         []URL     `json:"urls"`
}

// Usernames asks who users are.
type Usernames struct {
	Usernames []string `json:"usernames"`
}

// Users answers Usernames, in its order and without those that do not exist.
type Users struct {
	Users []UserRef `json:"users"`
}

// MediaRequest carries the media of a post: as many types as ids.
type MediaRequest struct {
	IDs   []string `json:"media_ids"`
	Types []string `json:"media_types"`
}

// TimelineEntry puts a post on its author's timeline.
type TimelineEntry struct {
	UserID      int64 `json:"user_id"`
	PostID      ID    `json:"post_id"`
	TimestampMS int64 `json:"timestamp_ms"`
}

// FanoutRequest puts a post on the home timelines of its author's followers and of those whom it mentions.
type FanoutRequest struct {
	TimelineEntry
	Mentioned []int64 `json:"mentioned"`
}

// UserIDs is a list of users.
type UserIDs struct {
	UserIDs []int64 `json:"user_ids"`
}
