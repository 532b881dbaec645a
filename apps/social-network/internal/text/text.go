// Package text reads a post's text: who is mentioned in it and which URLs it has, which it replaces by short ones.
package text

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
)

type composer struct{ shorten, mention *service.Client }

// New adds the role's route.
func New(_ context.Context, s *service.Service) error {
	shorten, err := s.Client(api.URLShorten)
	if err != nil {
		return err
	}
	mention, err := s.Client(api.UserMention)
	if err != nil {
		return err
	}
	c := &composer{shorten, mention}
	s.Handle("POST "+api.PathText, c.compose)
	return nil
}

func (c *composer) compose(w http.ResponseWriter, r *http.Request) error {
	var request api.TextRequest
	if err := service.ReadJSON(r, &request); err != nil {
		return err
	}
	var urls api.URLs
	var users api.Users
	group, ctx := errgroup.WithContext(r.Context())
	group.Go(func() error {
		return c.shorten.PostJSON(ctx, api.PathShorten, api.ShortenRequest{URLs: URLs(request.Text)}, &urls)
	})
	group.Go(func() error {
		return c.mention.PostJSON(ctx, api.PathMentions, api.Usernames{Usernames: Mentions(request.Text)}, &users)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return service.WriteJSON(w, api.ComposedText{
		Text:         Replace(request.Text, urls.URLs),
		UserMentions: users.Users,
		URLs:         urls.URLs,
	})
}

// Mentions is each name after an @, once, in order of appearance. A name has letters, digits, - and _.
func Mentions(text string) []string {
	names := []string{}
	for {
		at := strings.IndexByte(text, '@')
		if at < 0 {
			return names
		}
		text = text[at+1:]
		end := 0
		for end < len(text) && isNameByte(text[end]) {
			end++
		}
		if end > 0 && end <= api.MaxNameBytes && !slices.Contains(names, text[:end]) {
			names = append(names, text[:end])
		}
		text = text[end:]
	}
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// URLs is each http and https URL, once, in order of appearance. A URL goes on to the next space.
func URLs(text string) []string {
	urls := []string{}
	for field := range strings.FieldsSeq(text) {
		if isURL(field) && !slices.Contains(urls, field) {
			urls = append(urls, field)
		}
	}
	return urls
}

func isURL(field string) bool {
	rest, isPlain := strings.CutPrefix(field, "http://")
	if !isPlain {
		var isSecure bool
		if rest, isSecure = strings.CutPrefix(field, "https://"); !isSecure {
			return false
		}
	}
	return rest != ""
}

// Replace puts the short form in place of each URL and leaves everything else as it is.
func Replace(text string, urls []api.URL) string {
	if len(urls) == 0 {
		return text
	}
	short := make(map[string]string, len(urls))
	for _, url := range urls {
		short[url.Long] = url.Short
	}
	var replaced strings.Builder
	replaced.Grow(len(text))
	rest := text
	for field := range strings.FieldsSeq(text) {
		at := strings.Index(rest, field)
		replaced.WriteString(rest[:at])
		if form, isKnown := short[field]; isKnown {
			replaced.WriteString(form)
		} else {
			replaced.WriteString(field)
		}
		rest = rest[at+len(field):]
	}
	replaced.WriteString(rest)
	return replaced.String()
}
