// Package geo finds the hotels near a place.
package geo

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"sync"

	"tailor/apps/common/service"
	"tailor/apps/hotel-reservation/internal/api"
)

// As in the original: at most five hotels, within ten kilometres.
const (
	MaxResults = 5
	RadiusKM   = 10.0
)

// earthKM is the mean radius of the earth.
const earthKM = 6371.0088

// Point is a hotel on the map, in degrees.
type Point struct {
	HotelID  int64
	Lat, Lon float64
}

// Index finds points near a place: sorted by latitude, so that only a band of them is looked at.
type Index struct{ points []Point }

// NewIndex makes the index of points.
func NewIndex(points []Point) *Index {
	sorted := slices.Clone(points)
	slices.SortFunc(sorted, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Lat, b.Lat), cmp.Compare(a.HotelID, b.HotelID))
	})
	return &Index{sorted}
}

// Nearest is the hotels within a radius [km] of a place, the nearest first, at most so many.
func (x *Index) Nearest(place api.Place, radius float64, most int) []int64 {
	type found struct {
		hotel int64
		km    float64
	}
	band := radius / earthKM * 180 / math.Pi
	first, _ := slices.BinarySearchFunc(x.points, place.Lat-band, func(p Point, lat float64) int { return cmp.Compare(p.Lat, lat) })
	var near []found
	for _, point := range x.points[first:] {
		if point.Lat > place.Lat+band {
			break
		}
		if km := Kilometres(place, api.Place{Lat: point.Lat, Lon: point.Lon}); km <= radius {
			near = append(near, found{point.HotelID, km})
		}
	}
	slices.SortFunc(near, func(a, b found) int { return cmp.Or(cmp.Compare(a.km, b.km), cmp.Compare(a.hotel, b.hotel)) })
	hotels := make([]int64, 0, most)
	for _, one := range near[:min(most, len(near))] {
		hotels = append(hotels, one.hotel)
	}
	return hotels
}

// Kilometres is the great-circle distance of two places (the haversine formula).
func Kilometres(a, b api.Place) float64 {
	const degree = math.Pi / 180
	lat, lon := (b.Lat-a.Lat)*degree/2, (b.Lon-a.Lon)*degree/2
	h := math.Pow(math.Sin(lat), 2) + math.Cos(a.Lat*degree)*math.Cos(b.Lat*degree)*math.Pow(math.Sin(lon), 2)
	return 2 * earthKM * math.Asin(math.Min(1, math.Sqrt(h)))
}

type guide struct {
	database *service.Database
	mutex    sync.Mutex
	index    *Index
}

// New adds the role's route.
func New(ctx context.Context, s *service.Service) error {
	database, err := s.Database(ctx, "geo-db")
	if err != nil {
		return err
	}
	g := &guide{database: database}
	s.Handle("GET "+api.PathNearby, g.nearby)
	return nil
}

func (g *guide) nearby(w http.ResponseWriter, r *http.Request) error {
	place, err := api.PlaceOf(r.URL.Query())
	if err != nil {
		return err
	}
	index, err := g.loaded(r.Context())
	if err != nil {
		return err
	}
	return service.WriteJSON(w, api.HotelIDs{HotelIDs: index.Nearest(place, RadiusKM, MaxResults)})
}

// loaded is the index of all hotels, read from the database by the first request that finds some there: hotels do not
// move.
func (g *guide) loaded(ctx context.Context) (*Index, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.index != nil {
		return g.index, nil
	}
	var points []Point
	err := g.database.Select(ctx, "SELECT points", "SELECT hotel_id, lat, lon FROM points",
		func(scan func(...any) error) error {
			var point Point
			if err := scan(&point.HotelID, &point.Lat, &point.Lon); err != nil {
				return err
			}
			points = append(points, point)
			return nil
		})
	if err != nil {
		return nil, err
	}
	index := NewIndex(points)
	if len(points) > 0 {
		g.index = index
	}
	return index, nil
}
