// Package composepost makes a post of what a user sends, with the help of most other services.
package composepost

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
)

// maxTextBytes bounds a post's text: with its lists it must fit into memcached.
const maxTextBytes = 64 << 10

type composer struct {
	uniqueID, text, media, user          *service.Client
	postStorage, userTimeline, writeHome *service.Client
}

// New adds the role's route.
func New(_ context.Context, s *service.Service) error {
	c := &composer{}
	for name, client := range map[string]**service.Client{
		api.UniqueID: &c.uniqueID, api.Text: &c.text, api.Media: &c.media, api.User: &c.user,
		api.PostStorage: &c.postStorage, api.UserTimeline: &c.userTimeline, api.WriteHomeTimeline: &c.writeHome,
	} {
		var err error
		if *client, err = s.Client(name); err != nil {
			return err
		}
	}
	s.Handle("POST "+api.PathComposePost, c.compose)
	return nil
}

// draft is the form as it was sent.
type draft struct {
	userID   int64
	username string
	text     string
	media    api.MediaRequest
	postType int64
}

func (c *composer) compose(w http.ResponseWriter, r *http.Request) error {
	sent, err := received(r)
	if err != nil {
		return err
	}
	post, mentioned, err := c.assemble(r.Context(), sent)
	if err != nil {
		return err
	}
	if err := c.publish(r.Context(), post, mentioned); err != nil {
		return err
	}
	return service.WriteJSON(w, api.Identifier{ID: post.PostID})
}

func received(r *http.Request) (draft, error) {
	if err := r.ParseForm(); err != nil {
		return draft{}, service.BadRequest("form: %v", err)
	}
	form := r.PostForm
	d := draft{username: form.Get("username"), text: form.Get("text")}
	if d.text == "" || len(d.text) > maxTextBytes {
		return draft{}, service.BadRequest("a text of 1 to %d bytes is needed, not %d", maxTextBytes, len(d.text))
	}
	var err error
	if d.userID, err = service.IntegerOf(form, "user_id"); err != nil {
		return draft{}, err
	}
	if d.postType, err = service.IntegerOf(form, "post_type"); err != nil {
		return draft{}, err
	}
	if d.media.IDs, err = list(form, "media_ids"); err != nil {
		return draft{}, err
	}
	d.media.Types, err = list(form, "media_types")
	return d, err
}

// list reads a form field that holds a JSON list of texts; one that is not there is an empty list.
func list(form url.Values, name string) ([]string, error) {
	items := []string{}
	if text := form.Get(name); text != "" {
		if err := json.Unmarshal([]byte(text), &items); err != nil {
			return nil, service.BadRequest("%s: %v", name, err)
		}
	}
	return items, nil
}

// assemble asks the services that each know a part of the post, all at once.
func (c *composer) assemble(ctx context.Context, sent draft) (*api.Post, []int64, error) {
	post := &api.Post{PostType: int(sent.postType)}
	var id api.Identifier
	var text api.ComposedText
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.uniqueID.GetJSON(ctx, api.PathUniqueID, nil, &id) })
	group.Go(func() error { return c.text.PostJSON(ctx, api.PathText, api.TextRequest{Text: sent.text}, &text) })
	group.Go(func() error { return c.media.PostJSON(ctx, api.PathComposeMedia, sent.media, &post.Media) })
	group.Go(func() error {
		query := url.Values{"user_id": {api.ID(sent.userID).String()}, "username": {sent.username}}
		return c.user.GetJSON(ctx, api.PathCreator, query, &post.Creator)
	})
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	post.PostID, post.Text, post.TimestampMS = id.ID, text.Text, time.Now().UnixMilli()
	mentions, err := json.Marshal(text.UserMentions)
	if err != nil {
		return nil, nil, fmt.Errorf("mentions: %w", err)
	}
	urls, err := json.Marshal(text.URLs)
	if err != nil {
		return nil, nil, fmt.Errorf("URLs: %w", err)
	}
	post.UserMentions, post.URLs = mentions, urls
	mentioned := make([]int64, len(text.UserMentions))
	for i, user := range text.UserMentions {
		mentioned[i] = user.UserID
	}
	return post, mentioned, nil
}

// publish stores the post and then puts it on the timelines. Not all at once: a reader who found the post on a
// timeline before it is stored would get an error, or a partial timeline.
func (c *composer) publish(ctx context.Context, post *api.Post, mentioned []int64) error {
	if err := c.postStorage.PostJSON(ctx, api.PathStorePost, post, nil); err != nil {
		return err
	}
	entry := api.TimelineEntry{UserID: post.Creator.UserID, PostID: post.PostID, TimestampMS: post.TimestampMS}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.userTimeline.PostJSON(ctx, api.PathWriteUserTimeline, entry, nil) })
	group.Go(func() error {
		request := api.FanoutRequest{TimelineEntry: entry, Mentioned: mentioned}
		return c.writeHome.PostJSON(ctx, api.PathWriteHomeTimeline, request, nil)
	})
	return group.Wait()
}
