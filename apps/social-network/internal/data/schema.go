// Package data makes the state that every repetition starts from, and checks that a configuration keeps it.
//
// Seed fills the databases once (the volumes are then kept), Prepare fills the caches from the databases before
// each load, and Check writes through the front end and reads back, before and after the load and after every
// cache is emptied.  All three are deterministic: the same arguments give the same rows, whatever the machine.
package data

import "tailor/apps/common/fixture"

// Hosts of the stores: the names of the compose services, as the logic services know them too.
const (
	UserDB         = "user-db"
	SocialGraphDB  = "social-graph-db"
	PostStorageDB  = "post-storage-db"
	UserTimelineDB = "user-timeline-db"
	HomeTimelineDB = "home-timeline-db"
	URLShortenDB   = "url-shorten-db"
	MediaDB        = "media-db"

	UserMemcached        = "user-memcached:11211"
	PostStorageMemcached = "post-storage-memcached:11211"
	URLShortenMemcached  = "url-shorten-memcached:11211"
	MediaMemcached       = "media-memcached:11211"

	SocialGraphRedis  = "social-graph-redis:6379"
	UserTimelineRedis = "user-timeline-redis:6379"
	HomeTimelineRedis = "home-timeline-redis:6379"
)

var (
	usersTable = fixture.Table{
		Name:    "users",
		Columns: []string{"user_id", "username", "first_name", "last_name", "password_hash", "salt", "created_ms"},
		Create: `CREATE TABLE users (user_id bigint NOT NULL, username text NOT NULL, first_name text NOT NULL,
			last_name text NOT NULL, password_hash text NOT NULL, salt text NOT NULL, created_ms bigint NOT NULL)`,
		Index: []string{`ALTER TABLE users ADD PRIMARY KEY (user_id)`, `ALTER TABLE users ADD UNIQUE (username)`},
	}
	followsTable = fixture.Table{
		Name:    "follows",
		Columns: []string{"follower_id", "followee_id"},
		Create:  `CREATE TABLE follows (follower_id bigint NOT NULL, followee_id bigint NOT NULL)`,
		Index: []string{
			`ALTER TABLE follows ADD PRIMARY KEY (follower_id, followee_id)`,
			`CREATE INDEX follows_followee ON follows (followee_id)`,
		},
	}
	postsTable = fixture.Table{
		Name: "posts",
		Columns: []string{
			"post_id", "creator_id", "creator_username", "text", "mentions", "urls", "media", "post_type", "created_ms",
		},
		Create: `CREATE TABLE posts (post_id bigint NOT NULL, creator_id bigint NOT NULL, creator_username text NOT NULL,
			text text NOT NULL, mentions jsonb NOT NULL, urls jsonb NOT NULL, media jsonb NOT NULL,
			post_type int NOT NULL, created_ms bigint NOT NULL)`,
		Index: []string{`ALTER TABLE posts ADD PRIMARY KEY (post_id)`},
	}
	userTimelineTable = timelineTable("user_timeline")
	homeTimelineTable = timelineTable("home_timeline")
	urlsTable         = fixture.Table{
		Name:    "urls",
		Columns: []string{"short", "long"},
		Create:  `CREATE TABLE urls (short text NOT NULL, long text NOT NULL)`,
		Index:   []string{`ALTER TABLE urls ADD PRIMARY KEY (short)`},
	}
	mediaTable = fixture.Table{
		Name:    "media",
		Columns: []string{"media_id", "media_type", "data"},
		Create:  `CREATE TABLE media (media_id bigint NOT NULL, media_type text NOT NULL, data bytea NOT NULL)`,
		Index:   []string{`ALTER TABLE media ADD PRIMARY KEY (media_id)`},
	}
)

func timelineTable(name string) fixture.Table {
	return fixture.Table{
		Name:    name,
		Columns: []string{"user_id", "post_id", "created_ms"},
		Create: `CREATE TABLE ` + name + ` (user_id bigint NOT NULL, post_id bigint NOT NULL,
			created_ms bigint NOT NULL)`,
		Index: []string{
			`ALTER TABLE ` + name + ` ADD PRIMARY KEY (user_id, post_id)`,
			`CREATE INDEX ` + name + `_newest ON ` + name + ` (user_id, created_ms DESC, post_id DESC)`,
		},
	}
}
