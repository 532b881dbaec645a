package recommendation

import (
	"slices"
	"testing"

	"tailor/apps/hotel-reservation/internal/api"
)

func TestTheBestComeFirst(t *testing.T) {
	var hotels []Hotel
	for i := range int64(8) {
		hotels = append(hotels, Hotel{i + 1, api.Place{Lat: 37 + float64(i)/100, Lon: -122}, float64(i % 4), 100 - float64(i)})
	}
	place := api.Place{Lat: 37.031, Lon: -122}
	for require, wanted := range map[string][]int64{
		"dis": {4, 5, 3, 6, 2}, "rate": {4, 8, 3, 7, 2}, "price": {8, 7, 6, 5, 4},
	} {
		found, err := Best(hotels, require, place)
		if err != nil || !slices.Equal(found, wanted) {
			t.Errorf("%s: %v, %v; wanted %v", require, found, err, wanted)
		}
	}
	if _, err := Best(hotels, "stars", place); err == nil {
		t.Error("stars is nothing to require")
	}
	if none, err := Best(nil, "rate", place); err != nil || len(none) != 0 {
		t.Errorf("of no hotels: %v, %v", none, err)
	}
}
