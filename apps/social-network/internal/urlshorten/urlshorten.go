// Package urlshorten gives long URLs short forms and finds them again: a cache in front of a database.
package urlshorten

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
)

// codeLength is 72 bits of a hash: two of a thousand million URLs share one with a chance of 1 in 10,000, and then
// the later is refused.
const codeLength = 12

const maxURLs = 64

type shortener struct {
	database *service.Database
	cache    *service.Memcached
}

// New adds the role's routes.
func New(ctx context.Context, s *service.Service) error {
	database, err := s.Database(ctx, "url-shorten-db")
	if err != nil {
		return err
	}
	cache, err := s.Memcached("url-shorten-memcached")
	if err != nil {
		return err
	}
	u := &shortener{database, cache}
	s.Handle("POST "+api.PathShorten, u.shorten)
	s.Handle("GET "+api.PathResolve, u.resolve)
	return nil
}

// Code is the short form of a URL without its prefix. It is a function of the URL, so that shortening twice stores
// once, and nothing has to be drawn anew when it is taken.
func Code(long string) string {
	hash := sha256.Sum256([]byte(long))
	return base64.RawURLEncoding.EncodeToString(hash[:])[:codeLength]
}

func (u *shortener) shorten(w http.ResponseWriter, r *http.Request) error {
	longs, err := longURLs(r)
	if err != nil {
		return err
	}
	reply := api.URLs{URLs: make([]api.URL, len(longs))}
	codes := make([]string, len(longs))
	for i, long := range longs {
		codes[i] = Code(long)
		reply.URLs[i] = api.URL{Short: api.ShortURLPrefix + codes[i], Long: long}
	}
	if len(longs) > 0 {
		if err := u.store(r.Context(), codes, longs); err != nil {
			return err
		}
	}
	return service.WriteJSON(w, reply)
}

// longURLs reads them from JSON or, for simple clients, from the form field "url", which may be repeated.
func longURLs(r *http.Request) ([]string, error) {
	var request api.ShortenRequest
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		if err := r.ParseForm(); err != nil {
			return nil, service.BadRequest("form: %v", err)
		}
		request.URLs = r.PostForm["url"]
		if len(request.URLs) == 0 {
			return nil, service.BadRequest("the form has no url")
		}
	} else if err := service.ReadJSON(r, &request); err != nil {
		return nil, err
	}
	if len(request.URLs) > maxURLs {
		return nil, service.BadRequest("%d URLs, at most %d", len(request.URLs), maxURLs)
	}
	return request.URLs, nil
}

// store inserts what is new. Sorted, so that two requests with the same URLs cannot wait for each other; DISTINCT,
// because one statement cannot meet its own row twice. The database's count shows a code that stands for another URL.
func (u *shortener) store(ctx context.Context, codes, longs []string) error {
	var others int64
	_, err := u.database.SelectOne(ctx, "INSERT urls", `
		WITH given AS (SELECT DISTINCT short, long FROM unnest($1::text[], $2::text[]) AS g(short, long) ORDER BY short),
		     added AS (INSERT INTO urls (short, long) SELECT short, long FROM given ON CONFLICT (short) DO NOTHING)
		SELECT count(*) FROM given JOIN urls USING (short) WHERE urls.long <> given.long`,
		[]any{&others}, codes, longs)
	if err != nil {
		return err
	}
	if others > 0 {
		return &service.StatusError{Status: http.StatusConflict, Text: "the short form is taken by another URL"}
	}
	return nil
}

func (u *shortener) resolve(w http.ResponseWriter, r *http.Request) error {
	code := strings.TrimPrefix(r.URL.Query().Get("short"), api.ShortURLPrefix)
	if code == "" || len(code) > 200 || strings.ContainsFunc(code, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return service.BadRequest("short=%q", code)
	}
	long, err := u.find(r.Context(), code)
	if err != nil {
		return err
	}
	return service.WriteJSON(w, api.URL{Short: api.ShortURLPrefix + code, Long: long})
}

func (u *shortener) find(ctx context.Context, code string) (string, error) {
	key := "url:" + code
	cached, err := u.cache.Get(ctx, key)
	if err != nil {
		return "", err
	}
	if cached != nil {
		return string(cached), nil
	}
	var long string
	found, err := u.database.SelectOne(ctx, "SELECT urls", "SELECT long FROM urls WHERE short = $1", []any{&long}, code)
	if err != nil {
		return "", err
	}
	if !found {
		return "", service.NotFound("no URL has the short form %q", code)
	}
	if err := u.cache.Set(ctx, key, []byte(long)); err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	return long, nil
}
