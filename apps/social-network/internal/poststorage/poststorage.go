// Package poststorage stores posts and finds them again: a cache in front of a database. A post never changes, so the
// cache can be out of date in one way only, by not having it.
package poststorage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
)

const maxPosts = 1000

type storage struct {
	database *service.Database
	cache    *service.Memcached
}

// New adds the role's routes.
func New(ctx context.Context, s *service.Service) error {
	database, err := s.Database(ctx, "post-storage-db")
	if err != nil {
		return err
	}
	cache, err := s.Memcached("post-storage-memcached")
	if err != nil {
		return err
	}
	p := &storage{database, cache}
	s.Handle("POST "+api.PathStorePost, p.store)
	s.Handle("GET "+api.PathReadPosts, p.read)
	return nil
}

// store writes to the database alone: the cache fills when a post is first read.
func (p *storage) store(w http.ResponseWriter, r *http.Request) error {
	var post api.Post
	if err := service.ReadJSON(r, &post); err != nil {
		return err
	}
	_, err := p.database.Execute(r.Context(), "INSERT posts", `
		INSERT INTO posts (post_id, creator_id, creator_username, text, mentions, urls, media, post_type, created_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		int64(post.PostID), post.Creator.UserID, post.Creator.Username, post.Text,
		listOf(post.UserMentions), listOf(post.URLs), listOf(post.Media), post.PostType, post.TimestampMS)
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// listOf is a list as text, which PostgreSQL parses; nothing at all is an empty list.
func listOf(list json.RawMessage) string {
	if len(list) == 0 || bytes.Equal(list, []byte("null")) {
		return "[]"
	}
	return string(list)
}

// read answers with all the posts that are asked for, in that order, or fails.
func (p *storage) read(w http.ResponseWriter, r *http.Request) error {
	given := r.URL.Query().Get("ids")
	if given == "" {
		return service.WriteBody(w, "application/json", []byte("[]"))
	}
	texts := strings.Split(given, ",")
	if len(texts) > maxPosts {
		return service.BadRequest("%d posts, at most %d", len(texts), maxPosts)
	}
	ids := make([]int64, len(texts))
	for i, text := range texts {
		var err error
		if ids[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return service.BadRequest("%q is no post id", text)
		}
	}
	found, err := service.ReadThrough(r.Context(), p.cache, "post:", ids, p.load)
	if err != nil {
		return err
	}
	posts := make([][]byte, len(ids))
	for i, id := range ids {
		if posts[i] = found[id]; posts[i] == nil {
			return fmt.Errorf("post %d is on a timeline but not stored", id)
		}
	}
	return service.WriteList(w, posts)
}

// load reads posts from the database, as JSON.
func (p *storage) load(ctx context.Context, ids []int64) (map[int64][]byte, error) {
	loaded := make(map[int64][]byte, len(ids))
	err := p.database.Select(ctx, "SELECT posts", `
		SELECT post_id, creator_id, creator_username, text, mentions, urls, media, post_type, created_ms
		FROM posts WHERE post_id = ANY($1)`,
		func(scan func(...any) error) error {
			var post api.Post
			var id int64
			var mentions, urls, media []byte
			err := scan(&id, &post.Creator.UserID, &post.Creator.Username, &post.Text,
				&mentions, &urls, &media, &post.PostType, &post.TimestampMS)
			if err != nil {
				return err
			}
			post.PostID, post.UserMentions, post.URLs, post.Media = api.ID(id), mentions, urls, media
			encoded, err := json.Marshal(&post)
			loaded[id] = encoded
			return err
		}, ids)
	return loaded, err
}
