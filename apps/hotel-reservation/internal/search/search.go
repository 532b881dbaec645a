// Package search finds hotels near a place that have a rate for a stay.
package search

import (
	"context"
	"net/http"

	"tailor/apps/common/service"
	"tailor/apps/hotel-reservation/internal/api"
)

type finder struct{ geo, rate *service.Client }

// New adds the role's route.
func New(_ context.Context, s *service.Service) error {
	geo, err := s.Client(api.Geo)
	if err != nil {
		return err
	}
	rate, err := s.Client(api.Rate)
	if err != nil {
		return err
	}
	f := &finder{geo, rate}
	s.Handle("GET "+api.PathNearbyOffers, f.offers)
	return nil
}

func (f *finder) offers(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	place, err := api.PlaceOf(query)
	if err != nil {
		return err
	}
	stay, err := api.StayOf(query.Get("inDate"), query.Get("outDate"))
	if err != nil {
		return err
	}
	var near api.HotelIDs
	if err := f.geo.GetJSON(r.Context(), api.PathNearby, place.Query(), &near); err != nil {
		return err
	}
	offers := api.HotelIDs{HotelIDs: []int64{}}
	if len(near.HotelIDs) > 0 {
		var rates api.RatePlans
		asked := api.Merged(api.HotelsQuery(near.HotelIDs), stay.Query())
		if err := f.rate.GetJSON(r.Context(), api.PathRates, asked, &rates); err != nil {
			return err
		}
		for _, plan := range rates.RatePlans {
			offers.HotelIDs = append(offers.HotelIDs, plan.HotelID)
		}
	}
	return service.WriteJSON(w, offers)
}
