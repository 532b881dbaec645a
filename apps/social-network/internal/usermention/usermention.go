// Package usermention finds the users whom a post mentions.
package usermention

import (
	"context"
	"net/http"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
)

// New adds the role's route. Names that nobody bears are left out: they are just text.
func New(_ context.Context, s *service.Service) error {
	users, err := s.Client(api.User)
	if err != nil {
		return err
	}
	s.Handle("POST "+api.PathMentions, func(w http.ResponseWriter, r *http.Request) error {
		var request api.Usernames
		if err := service.ReadJSON(r, &request); err != nil {
			return err
		}
		if len(request.Usernames) == 0 {
			return service.WriteJSON(w, api.Users{Users: []api.UserRef{}})
		}
		var found api.Users
		if err := users.PostJSON(r.Context(), api.PathUsers, request, &found); err != nil {
			return err
		}
		return service.WriteJSON(w, found)
	})
	return nil
}
