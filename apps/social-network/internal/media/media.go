// Package media keeps pictures and films: a cache in front of a database.
package media

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
	"tailor/apps/social-network/internal/uniqueid"
)

const maxMedia = 64

type library struct {
	database *service.Database
	cache    *service.Memcached
	ids      *uniqueid.Generator
}

// New adds the role's routes.
func New(ctx context.Context, s *service.Service) error {
	database, err := s.Database(ctx, "media-db")
	if err != nil {
		return err
	}
	cache, err := s.Memcached("media-memcached")
	if err != nil {
		return err
	}
	l := &library{database, cache, uniqueid.NewGenerator(s.Name, time.Now)}
	s.Handle("POST "+api.PathComposeMedia, compose)
	s.Handle("POST "+api.PathUploadMedia, l.upload)
	s.Handle("GET "+api.PathGetMedia, l.get)
	return nil
}

// compose makes the references of a post's media.
func compose(w http.ResponseWriter, r *http.Request) error {
	var request api.MediaRequest
	if err := service.ReadJSON(r, &request); err != nil {
		return err
	}
	if len(request.IDs) != len(request.Types) || len(request.IDs) > maxMedia {
		return service.BadRequest("%d media ids and %d types; as many as each other and at most %d are allowed",
			len(request.IDs), len(request.Types), maxMedia)
	}
	references := make([]api.MediaRef, len(request.IDs))
	for i, id := range request.IDs {
		references[i] = api.MediaRef{MediaID: id, MediaType: request.Types[i]}
	}
	return service.WriteJSON(w, references)
}

func (l *library) upload(w http.ResponseWriter, r *http.Request) error {
	data, mediaType, err := received(r)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return service.BadRequest("the media are empty")
	}
	id := l.ids.Next()
	_, err = l.database.Execute(r.Context(), "INSERT media",
		"INSERT INTO media (media_id, media_type, data) VALUES ($1, $2, $3)", id, mediaType, data)
	if err != nil {
		return err
	}
	return service.WriteJSON(w, api.MediaRef{MediaID: api.ID(id).String(), MediaType: mediaType})
}

// received reads the part "media" of a multipart form, as browsers send it, or the plain body; the type is the
// file's extension or the second half of the content type.
func received(r *http.Request) (data []byte, mediaType string, err error) {
	contentType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, "", service.BadRequest("Content-Type: %v", err)
	}
	if contentType != "multipart/form-data" {
		_, mediaType, _ = strings.Cut(contentType, "/")
		data, err = io.ReadAll(r.Body)
		return data, mediaType, err
	}
	file, header, err := r.FormFile("media")
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, "", err
		}
		return nil, "", service.BadRequest("form: %v", err)
	}
	defer file.Close()
	data, err = io.ReadAll(file)
	return data, strings.TrimPrefix(path.Ext(header.Filename), "."), err
}

func (l *library) get(w http.ResponseWriter, r *http.Request) error {
	id, err := service.IntegerOf(r.URL.Query(), "media_id")
	if err != nil {
		return err
	}
	data, err := l.find(r.Context(), id)
	if err != nil {
		return err
	}
	// The type that the data themselves show, as a browser would see it: the cache holds the data alone.
	return service.WriteBody(w, http.DetectContentType(data), data)
}

func (l *library) find(ctx context.Context, id int64) ([]byte, error) {
	key := "media:" + api.ID(id).String()
	cached, err := l.cache.Get(ctx, key)
	if err != nil || cached != nil {
		return cached, err
	}
	var data []byte
	found, err := l.database.SelectOne(ctx, "SELECT media",
		"SELECT data FROM media WHERE media_id = $1", []any{&data}, id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, service.NotFound("no media have the id %d", id)
	}
	return data, l.cache.Set(ctx, key, data)
}
