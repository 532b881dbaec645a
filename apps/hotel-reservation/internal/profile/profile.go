// Package profile knows what a guest reads about a hotel: a cache in front of a database. Profiles do not change.
package profile

import (
	"context"
	"encoding/json"
	"net/http"

	"tailor/apps/common/service"
	"tailor/apps/hotel-reservation/internal/api"
)

type profiles struct {
	database *service.Database
	cache    *service.Memcached
}

// New adds the role's route.
func New(ctx context.Context, s *service.Service) error {
	database, err := s.Database(ctx, "profile-db")
	if err != nil {
		return err
	}
	cache, err := s.Memcached("profile-memcached")
	if err != nil {
		return err
	}
	p := &profiles{database, cache}
	s.Handle("GET "+api.PathProfiles, p.read)
	return nil
}

// read answers with all the profiles that are asked for, in that order, or fails.
func (p *profiles) read(w http.ResponseWriter, r *http.Request) error {
	hotels, err := api.HotelsOf(r.URL.Query())
	if err != nil {
		return err
	}
	found, err := service.ReadThrough(r.Context(), p.cache, "profile:", hotels, p.load)
	if err != nil {
		return err
	}
	list := make([][]byte, len(hotels))
	for i, hotel := range hotels {
		if list[i] = found[hotel]; list[i] == nil {
			return service.NotFound("no hotel %d", hotel)
		}
	}
	return service.WriteList(w, list)
}

// load reads profiles from the database, as JSON.
func (p *profiles) load(ctx context.Context, hotels []int64) (map[int64][]byte, error) {
	encoded := make(map[int64][]byte, len(hotels))
	err := p.database.Select(ctx, "SELECT profiles", `
		SELECT hotel_id, name, phone_number, description, address, images FROM profiles WHERE hotel_id = ANY($1)`,
		func(scan func(...any) error) error {
			var one api.HotelProfile
			var address, images []byte
			if err := scan(&one.ID, &one.Name, &one.PhoneNumber, &one.Description, &address, &images); err != nil {
				return err
			}
			if err := json.Unmarshal(address, &one.Address); err != nil {
				return err
			}
			if err := json.Unmarshal(images, &one.Images); err != nil {
				return err
			}
			var err error
			encoded[one.ID], err = json.Marshal(&one)
			return err
		}, hotels)
	return encoded, err
}
