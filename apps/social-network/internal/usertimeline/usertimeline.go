// Package usertimeline keeps what each user has posted.
package usertimeline

import (
	"context"
	"net/http"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
	"tailor/apps/social-network/internal/timeline"
)

// New adds the role's routes.
func New(ctx context.Context, s *service.Service) error {
	timelines, err := timeline.Open(ctx, s, api.UserTimeline, "user_timeline", "ut")
	if err != nil {
		return err
	}
	posts, err := s.Client(api.PostStorage)
	if err != nil {
		return err
	}
	s.Handle("GET "+api.PathReadUserTimeline, timelines.Reader(posts))
	s.Handle("POST "+api.PathWriteUserTimeline, func(w http.ResponseWriter, r *http.Request) error {
		var request api.TimelineEntry
		if err := service.ReadJSON(r, &request); err != nil {
			return err
		}
		entry := timeline.Entry{PostID: int64(request.PostID), CreatedMS: request.TimestampMS}
		if err := timelines.Add(r.Context(), []int64{request.UserID}, entry); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
	return nil
}
