// Package user checks passwords.
package user

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"

	"tailor/apps/common/service"
	"tailor/apps/hotel-reservation/internal/api"
)

type directory struct{ database *service.Database }

// New adds the role's route.
func New(ctx context.Context, s *service.Service) error {
	database, err := s.Database(ctx, "user-db")
	if err != nil {
		return err
	}
	d := &directory{database}
	s.Handle("GET "+api.PathCheckUser, d.check)
	return nil
}

// Digest is how a password is kept: SHA-256 in hexadecimal, as in the original.  A real site would use a slow, salted
// hash.
func Digest(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

func (d *directory) check(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	name, err := api.NameOf(query, "username")
	if err != nil {
		return err
	}
	password, err := api.NameOf(query, "password")
	if err != nil {
		return err
	}
	var kept string
	found, err := d.database.SelectOne(r.Context(), "SELECT users", "SELECT password_hash FROM users WHERE username = $1",
		[]any{&kept}, name)
	if err != nil {
		return err
	}
	same := subtle.ConstantTimeCompare([]byte(kept), []byte(Digest(password))) == 1
	return service.WriteJSON(w, api.Checked{Correct: found && same})
}
