package user

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
)

// rounds of PBKDF2 with HMAC-SHA-256, after OWASP's Password Storage Cheat Sheet.
const rounds = 600_000

const saltBytes = 16

func (d *directory) register(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return service.BadRequest("form: %v", err)
	}
	name, password := r.PostForm.Get("username"), r.PostForm.Get("password")
	if !isName(name) {
		return service.BadRequest("%q is no username", name)
	}
	if password == "" {
		return service.BadRequest("a password is needed")
	}
	id := d.ids.Next()
	if r.PostForm.Has("user_id") {
		var err error
		if id, err = service.IntegerOf(r.PostForm, "user_id"); err != nil {
			return err
		}
	}
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // documented never to fail
	hash, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		return fmt.Errorf("password: %w", err)
	}
	_, err = d.database.Execute(r.Context(), "INSERT users", `
		INSERT INTO users (user_id, username, first_name, last_name, password_hash, salt, created_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		id, name, r.PostForm.Get("first_name"), r.PostForm.Get("last_name"),
		hex.EncodeToString(hash), hex.EncodeToString(salt), time.Now().UnixMilli())
	if err != nil {
		return err
	}
	return service.WriteJSON(w, api.UserRef{UserID: id, Username: name})
}
