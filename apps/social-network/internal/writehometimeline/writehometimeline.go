// Package writehometimeline puts a new post on the home timelines of its author's followers and of those whom it
// mentions, batch by batch, by a pool of workers that all requests share.
package writehometimeline

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
	"tailor/apps/social-network/internal/timeline"
)

// batchSize is how many timelines one statement and one script write: enough to share their cost, few enough that
// several workers have a part in a post of many followers.
const batchSize = 32

type fanout struct {
	graph     *service.Client
	timelines *timeline.Timelines
	workers   *Pool
}

// New adds the role's route and starts its workers, which stop with ctx.
func New(ctx context.Context, s *service.Service) error {
	timelines, err := timeline.Open(ctx, s, api.HomeTimeline, "home_timeline", "ht")
	if err != nil {
		return err
	}
	graph, err := s.Client(api.SocialGraph)
	if err != nil {
		return err
	}
	count, err := s.Parameters().Integer(service.FanoutWorkers, service.DefaultFanoutWorkers())
	if err != nil {
		return err
	}
	f := &fanout{graph, timelines, NewPool(count)}
	s.OnClose(f.workers.Close)
	s.Parameters().Watch(service.FanoutWorkers, f.workers.Size)
	s.Handle("POST "+api.PathWriteHomeTimeline, f.write)
	return nil
}

func (f *fanout) write(w http.ResponseWriter, r *http.Request) error {
	var request api.FanoutRequest
	if err := service.ReadJSON(r, &request); err != nil {
		return err
	}
	ctx := r.Context()
	var followers api.UserIDs
	query := url.Values{"user_id": {api.ID(request.UserID).String()}}
	if err := f.graph.GetJSON(ctx, api.PathFollowers, query, &followers); err != nil {
		return err
	}
	receivers := Receivers(followers.UserIDs, request.Mentioned)
	entry := timeline.Entry{PostID: int64(request.PostID), CreatedMS: request.TimestampMS}
	batches := slices.Collect(slices.Chunk(receivers, batchSize))
	err := f.workers.Each(ctx, len(batches), func(ctx context.Context, i int) error {
		return f.timelines.Add(ctx, batches[i], entry)
	})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Receivers is everybody in followers or mentioned, once.
func Receivers(followers, mentioned []int64) []int64 {
	all := slices.Concat(followers, mentioned)
	slices.Sort(all)
	return slices.Compact(all)
}
