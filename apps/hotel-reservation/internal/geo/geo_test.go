package geo

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tailor/apps/hotel-reservation/internal/api"
)

// TestDistances against published great-circle distances: San Francisco to Oakland airport, a degree of latitude, and
// half the way round.
func TestDistances(t *testing.T) {
	for _, one := range []struct {
		a, b api.Place
		km   float64
	}{
		{api.Place{Lat: 37.6188056, Lon: -122.3754167}, api.Place{Lat: 37.7214167, Lon: -122.2208333}, 17.74}, // SFO, OAK
		{api.Place{Lat: 10, Lon: 20}, api.Place{Lat: 11, Lon: 20}, 111.195},
		{api.Place{Lat: 0, Lon: 0}, api.Place{Lat: 0, Lon: 180}, math.Pi * earthKM},
		{api.Place{Lat: 37.7, Lon: -122}, api.Place{Lat: 37.7, Lon: -122}, 0},
	} {
		if km := Kilometres(one.a, one.b); math.Abs(km-one.km) > 0.05 {
			t.Errorf("%v to %v: %.3f km, wanted %.3f", one.a, one.b, km, one.km)
		}
	}
}

// TestTheIndexFindsWhatALookAtAllFinds, for random points, places and radii.
func TestTheIndexFindsWhatALookAtAllFinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		points := make([]Point, rng.IntN(60))
		for i := range points {
			points[i] = Point{int64(i + 1), 37 + rng.Float64(), -122 + rng.Float64()}
		}
		place := api.Place{Lat: 37 + rng.Float64(), Lon: -122 + rng.Float64()}
		radius, most := rng.Float64()*60, rng.IntN(8)
		sorted := slices.Clone(points)
		distance := func(p Point) float64 { return Kilometres(place, api.Place{Lat: p.Lat, Lon: p.Lon}) }
		slices.SortFunc(sorted, func(a, b Point) int { return cmp.Compare(distance(a), distance(b)) })
		wanted := []int64{}
		for _, point := range sorted {
			if distance(point) <= radius && len(wanted) < most {
				wanted = append(wanted, point.HotelID)
			}
		}
		if found := NewIndex(points).Nearest(place, radius, most); !slices.Equal(found, wanted) {
			t.Fatalf("found %v, wanted %v", found, wanted)
		}
	}
}
