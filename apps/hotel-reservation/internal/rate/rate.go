// Package rate knows what hotels ask for a room: a cache in front of a database. Rates do not change.
package rate

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"tailor/apps/common/service"
	"tailor/apps/hotel-reservation/internal/api"
)

type rates struct {
	database *service.Database
	cache    *service.Memcached
}

// New adds the role's route.
func New(ctx context.Context, s *service.Service) error {
	database, err := s.Database(ctx, "rate-db")
	if err != nil {
		return err
	}
	cache, err := s.Memcached("rate-memcached")
	if err != nil {
		return err
	}
	p := &rates{database, cache}
	s.Handle("GET "+api.PathRates, p.find)
	return nil
}

// find answers with the cheapest plan of each hotel that has one for the whole stay, the cheapest hotel first.
func (p *rates) find(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	stay, err := api.StayOf(query.Get("inDate"), query.Get("outDate"))
	if err != nil {
		return err
	}
	hotels, err := api.HotelsOf(query)
	if err != nil {
		return err
	}
	known, err := p.plans(r.Context(), hotels)
	if err != nil {
		return err
	}
	return service.WriteJSON(w, api.RatePlans{RatePlans: Cheapest(known, stay)})
}

// Cheapest is each hotel's cheapest plan that holds for all nights of a stay, in the order of their prices.
func Cheapest(hotels [][]api.RatePlan, stay api.Stay) []api.RatePlan {
	wanted := stay.Query()
	in, out := wanted.Get("inDate"), wanted.Get("outDate")
	cheapest := make([]api.RatePlan, 0, len(hotels))
	for _, plans := range hotels {
		var best *api.RatePlan
		for i := range plans {
			holds := plans[i].InDate <= in && out <= plans[i].OutDate // dates sort as text
			if holds && (best == nil || plans[i].RoomType.Inclusive < best.RoomType.Inclusive) {
				best = &plans[i]
			}
		}
		if best != nil {
			cheapest = append(cheapest, *best)
		}
	}
	slices.SortFunc(cheapest, func(a, b api.RatePlan) int {
		return cmp.Or(cmp.Compare(a.RoomType.Inclusive, b.RoomType.Inclusive), cmp.Compare(a.HotelID, b.HotelID))
	})
	return cheapest
}

// plans is all plans of each hotel, in the order of the hotels.
func (p *rates) plans(ctx context.Context, hotels []int64) ([][]api.RatePlan, error) {
	found, err := service.ReadThrough(ctx, p.cache, "rate:", hotels, p.load)
	if err != nil {
		return nil, err
	}
	plans := make([][]api.RatePlan, len(hotels))
	for i, hotel := range hotels {
		if encoded := found[hotel]; encoded != nil {
			if err := json.Unmarshal(encoded, &plans[i]); err != nil {
				return nil, err
			}
		}
	}
	return plans, nil
}

// load reads the plans of hotels from the database, each hotel's as JSON.
func (p *rates) load(ctx context.Context, hotels []int64) (map[int64][]byte, error) {
	plans := map[int64][]api.RatePlan{}
	err := p.database.Select(ctx, "SELECT rates", `
		SELECT hotel_id, code, in_date, out_date, bookable, total, inclusive, room_code, currency, description
		FROM rates WHERE hotel_id = ANY($1) ORDER BY hotel_id, code`,
		func(scan func(...any) error) error {
			var one api.RatePlan
			room := &one.RoomType
			err := scan(&one.HotelID, &one.Code, &one.InDate, &one.OutDate, &room.Bookable, &room.Total, &room.Inclusive,
				&room.Code, &room.Currency, &room.Description)
			plans[one.HotelID] = append(plans[one.HotelID], one)
			return err
		}, hotels)
	if err != nil {
		return nil, err
	}
	encoded := make(map[int64][]byte, len(plans))
	for hotel, list := range plans {
		if encoded[hotel], err = json.Marshal(list); err != nil {
			return nil, err
		}
	}
	return encoded, nil
}
