// Package hometimeline reads what each user gets to see: the posts of those whom they follow, and those that mention
// them. write-home-timeline writes it.
package hometimeline

import (
	"context"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
	"tailor/apps/social-network/internal/timeline"
)

// New adds the role's route.
func New(ctx context.Context, s *service.Service) error {
	timelines, err := timeline.Open(ctx, s, api.HomeTimeline, "home_timeline", "ht")
	if err != nil {
		return err
	}
	posts, err := s.Client(api.PostStorage)
	if err != nil {
		return err
	}
	s.Handle("GET "+api.PathReadHomeTimeline, timelines.Reader(posts))
	return nil
}
