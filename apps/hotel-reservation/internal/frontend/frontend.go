// Package frontend answers what clients ask: it turns their parameters into calls of the other services, and what
// these say into GeoJSON.
package frontend

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"tailor/apps/common/service"
	"tailor/apps/hotel-reservation/internal/api"
)

type desk struct {
	search, reservation, profile, recommendation, user *service.Client
}

// New adds the role's routes.
func New(_ context.Context, s *service.Service) error {
	d := &desk{}
	for name, client := range map[string]**service.Client{
		api.Search: &d.search, api.Reservation: &d.reservation, api.Profile: &d.profile,
		api.Recommendation: &d.recommendation, api.User: &d.user,
	} {
		var err error
		if *client, err = s.Client(name); err != nil {
			return err
		}
	}
	s.Handle("GET "+api.PathHotels, d.hotels)
	s.Handle("GET "+api.PathRecommendations, d.recommendations)
	for _, method := range []string{"GET ", "POST "} {
		s.Handle(method+api.PathUser, d.login)
		s.Handle(method+api.PathReservation, d.reserve)
	}
	return nil
}

// hotels are those near a place with a rate and a room for the stay, the cheapest first.
func (d *desk) hotels(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	place, err := api.PlaceOf(query)
	if err != nil {
		return err
	}
	stay, err := api.StayOf(query.Get("inDate"), query.Get("outDate"))
	if err != nil {
		return err
	}
	var offers, free api.HotelIDs
	if err := d.search.GetJSON(r.Context(), api.PathNearbyOffers, api.Merged(place.Query(), stay.Query()), &offers); err != nil {
		return err
	}
	asked := api.Merged(api.HotelsQuery(offers.HotelIDs), stay.Query())
	if err := d.reservation.GetJSON(r.Context(), api.PathAvailable, asked, &free); err != nil {
		return err
	}
	return d.show(w, r, free.HotelIDs)
}

// recommendations are the nearest, best rated or cheapest hotels.
func (d *desk) recommendations(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	place, err := api.PlaceOf(query)
	if err != nil {
		return err
	}
	var best api.HotelIDs
	asked := api.Merged(place.Query(), url.Values{"require": {query.Get("require")}})
	if err := d.recommendation.GetJSON(r.Context(), api.PathRecommend, asked, &best); err != nil {
		return err
	}
	return d.show(w, r, best.HotelIDs)
}

// show answers with hotels as points on a map.
func (d *desk) show(w http.ResponseWriter, r *http.Request, hotels []int64) error {
	var profiles []api.HotelProfile
	if err := d.profile.GetJSON(r.Context(), api.PathProfiles, api.HotelsQuery(hotels), &profiles); err != nil {
		return err
	}
	shown := api.FeatureCollection{Type: "FeatureCollection", Features: make([]api.Feature, len(profiles))}
	for i, one := range profiles {
		shown.Features[i] = api.Feature{
			Type: "Feature", ID: strconv.FormatInt(one.ID, 10),
			Properties: map[string]string{"name": one.Name, "phone_number": one.PhoneNumber},
			Geometry:   api.Geometry{Type: "Point", Coordinates: [2]float64{one.Address.Lon, one.Address.Lat}},
		}
	}
	return service.WriteJSON(w, shown)
}

func (d *desk) login(w http.ResponseWriter, r *http.Request) error {
	correct, err := d.isUser(r.Context(), r.URL.Query())
	if err != nil {
		return err
	}
	text := api.LoggedIn
	if !correct {
		text = api.NotLoggedIn
	}
	return service.WriteJSON(w, api.Message{Message: text})
}

func (d *desk) isUser(ctx context.Context, query url.Values) (bool, error) {
	asked := url.Values{"username": query["username"], "password": query["password"]}
	var checked api.Checked
	err := d.user.GetJSON(ctx, api.PathCheckUser, asked, &checked)
	return checked.Correct, err
}

func (d *desk) reserve(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	request := api.ReserveRequest{InDate: query.Get("inDate"), OutDate: query.Get("outDate")}
	if _, err := api.StayOf(request.InDate, request.OutDate); err != nil {
		return err
	}
	var err error
	if request.HotelID, err = service.IntegerOf(query, "hotelId"); err != nil {
		return err
	}
	if request.Customer, err = api.NameOf(query, "customerName"); err != nil {
		return err
	}
	if request.Rooms, err = api.RoomsOf(query); err != nil {
		return err
	}
	correct, err := d.isUser(r.Context(), query)
	if err != nil {
		return err
	}
	if !correct {
		return service.WriteJSON(w, api.Message{Message: api.NotLoggedIn})
	}
	var reserved api.Reserved
	if err := d.reservation.PostJSON(r.Context(), api.PathReserve, request, &reserved); err != nil {
		return err
	}
	text := api.Done
	if !reserved.Done {
		text = api.FullyBooked
	}
	return service.WriteJSON(w, api.Message{Message: text})
}
