// Package user knows the users: it registers them and finds them by name, a cache in front of a database.
package user

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
	"tailor/apps/social-network/internal/uniqueid"
)

const maxNames = 64

type directory struct {
	database *service.Database
	cache    *service.Memcached
	ids      *uniqueid.Generator
}

// New adds the role's routes.
func New(ctx context.Context, s *service.Service) error {
	database, err := s.Database(ctx, "user-db")
	if err != nil {
		return err
	}
	cache, err := s.Memcached("user-memcached")
	if err != nil {
		return err
	}
	d := &directory{database, cache, uniqueid.NewGenerator(s.Name, time.Now)}
	s.Handle("POST "+api.PathUsers, d.lookup)
	s.Handle("GET "+api.PathCreator, d.creator)
	s.Handle("POST "+api.PathRegister, d.register)
	return nil
}

func (d *directory) lookup(w http.ResponseWriter, r *http.Request) error {
	var request api.Usernames
	if err := service.ReadJSON(r, &request); err != nil {
		return err
	}
	if len(request.Usernames) > maxNames {
		return service.BadRequest("%d names, at most %d", len(request.Usernames), maxNames)
	}
	found, err := d.find(r.Context(), request.Usernames)
	if err != nil {
		return err
	}
	reply := api.Users{Users: make([]api.UserRef, 0, len(found))}
	for _, name := range request.Usernames {
		if id, isUser := found[name]; isUser {
			reply.Users = append(reply.Users, api.UserRef{UserID: id, Username: name})
		}
	}
	return service.WriteJSON(w, reply)
}

// creator checks that the author of a post is who the form says.
func (d *directory) creator(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	id, err := service.IntegerOf(query, "user_id")
	if err != nil {
		return err
	}
	name := query.Get("username")
	found, err := d.find(r.Context(), []string{name})
	if err != nil {
		return err
	}
	if known, isUser := found[name]; !isUser || known != id {
		return service.BadRequest("no user %q has the id %d", name, id)
	}
	return service.WriteJSON(w, api.UserRef{UserID: id, Username: name})
}

// find is the ids of those names that are users'.
func (d *directory) find(ctx context.Context, names []string) (map[string]int64, error) {
	found := make(map[string]int64, len(names))
	if len(names) == 0 {
		return found, nil
	}
	keys := make([]string, len(names))
	for i, name := range names {
		if !isName(name) {
			return nil, service.BadRequest("%q is no username", name)
		}
		keys[i] = "user:" + name
	}
	cached, err := d.cache.GetMany(ctx, keys)
	if err != nil {
		return nil, err
	}
	missing := names[:0:0]
	for i, name := range names {
		id, err := strconv.ParseInt(string(cached[keys[i]]), 10, 64)
		if err != nil {
			missing = append(missing, name) // not there, or not ours: the database knows
			continue
		}
		found[name] = id
	}
	if len(missing) == 0 {
		return found, nil
	}
	return found, d.findMissing(ctx, missing, found)
}

func (d *directory) findMissing(ctx context.Context, names []string, found map[string]int64) error {
	fills := make(map[string][]byte, len(names))
	err := d.database.Select(ctx, "SELECT users", "SELECT username, user_id FROM users WHERE username = ANY($1)",
		func(scan func(...any) error) error {
			var name string
			var id int64
			if err := scan(&name, &id); err != nil {
				return err
			}
			found[name] = id
			fills["user:"+name] = strconv.AppendInt(nil, id, 10)
			return nil
		}, names)
	if err != nil {
		return err
	}
	return d.cache.SetMany(ctx, fills)
}

func isName(name string) bool {
	return name != "" && len(name) <= api.MaxNameBytes &&
		!strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == 0x7f })
}
