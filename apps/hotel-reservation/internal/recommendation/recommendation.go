// Package recommendation names the best hotels by distance, rating or price.
package recommendation

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"

	"tailor/apps/common/service"
	"tailor/apps/hotel-reservation/internal/api"
	"tailor/apps/hotel-reservation/internal/geo"
)

const maxResults = 5

// Hotel is what a recommendation weighs.
type Hotel struct {
	ID     int64
	Place  api.Place
	Rating float64
	Price  float64
}

// Best is at most five hotels: the nearest (dis), the best rated (rate) or the cheapest (price).
func Best(hotels []Hotel, require string, place api.Place) ([]int64, error) {
	var cost func(Hotel) float64
	switch require {
	case "dis":
		cost = func(h Hotel) float64 { return geo.Kilometres(place, h.Place) }
	case "rate":
		cost = func(h Hotel) float64 { return -h.Rating }
	case "price":
		cost = func(h Hotel) float64 { return h.Price }
	default:
		return nil, service.BadRequest("require=%q: allowed are dis, rate and price", require)
	}
	type weighed struct {
		hotel int64
		cost  float64
	}
	all := make([]weighed, len(hotels))
	for i, hotel := range hotels {
		all[i] = weighed{hotel.ID, cost(hotel)}
	}
	slices.SortFunc(all, func(a, b weighed) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.hotel, b.hotel)) })
	best := make([]int64, 0, maxResults)
	for _, one := range all[:min(maxResults, len(all))] {
		best = append(best, one.hotel)
	}
	return best, nil
}

type adviser struct {
	database *service.Database
	mutex    sync.Mutex
	hotels   []Hotel
}

// New adds the role's route.
func New(ctx context.Context, s *service.Service) error {
	database, err := s.Database(ctx, "recommendation-db")
	if err != nil {
		return err
	}
	a := &adviser{database: database}
	s.Handle("GET "+api.PathRecommend, a.recommend)
	return nil
}

func (a *adviser) recommend(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	place, err := api.PlaceOf(query)
	if err != nil {
		return err
	}
	hotels, err := a.loaded(r.Context())
	if err != nil {
		return err
	}
	best, err := Best(hotels, query.Get("require"), place)
	if err != nil {
		return err
	}
	return service.WriteJSON(w, api.HotelIDs{HotelIDs: best})
}

// loaded is all hotels, read from the database by the first request that finds some there: they do not change.
func (a *adviser) loaded(ctx context.Context) ([]Hotel, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if len(a.hotels) > 0 {
		return a.hotels, nil
	}
	var hotels []Hotel
	err := a.database.Select(ctx, "SELECT hotels", "SELECT hotel_id, lat, lon, rating, price FROM hotels ORDER BY hotel_id",
		func(scan func(...any) error) error {
			var one Hotel
			err := scan(&one.ID, &one.Place.Lat, &one.Place.Lon, &one.Rating, &one.Price)
			hotels = append(hotels, one)
			return err
		})
	if err != nil {
		return nil, err
	}
	a.hotels = hotels
	return hotels, nil
}
