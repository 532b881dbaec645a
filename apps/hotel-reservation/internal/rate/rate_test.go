package rate

import (
	"testing"

	"tailor/apps/hotel-reservation/internal/api"
)

func TestTheCheapestPlanThatHoldsForTheWholeStay(t *testing.T) {
	plan := func(hotel int64, code, in, out string, price float64) api.RatePlan {
		return api.RatePlan{HotelID: hotel, Code: code, InDate: in, OutDate: out, RoomType: api.RoomType{Inclusive: price}}
	}
	hotels := [][]api.RatePlan{
		{plan(1, "RACK", "2015-04-01", "2015-06-01", 120), plan(1, "AAA", "2015-04-10", "2015-04-12", 90)},
		{plan(2, "RACK", "2015-04-01", "2015-06-01", 100)},
		{plan(3, "RACK", "2015-04-01", "2015-04-11", 50)},
		{},
	}
	for stay, wanted := range map[[2]string][]string{
		{"2015-04-10", "2015-04-12"}: {"AAA 1", "RACK 2"},            // three's ends too early
		{"2015-04-10", "2015-04-13"}: {"RACK 2", "RACK 1"},           // one's cheaper ends too early
		{"2015-04-09", "2015-04-11"}: {"RACK 3", "RACK 2", "RACK 1"}, // the last night is the tenth
	} {
		read, err := api.StayOf(stay[0], stay[1])
		if err != nil {
			t.Fatal(err)
		}
		found := Cheapest(hotels, read)
		if len(found) != len(wanted) {
			t.Fatalf("%v: %v", stay, found)
		}
		for i, one := range found {
			if name := one.Code + " " + string(rune('0'+one.HotelID)); name != wanted[i] {
				t.Errorf("%v: %s instead of %s", stay, name, wanted[i])
			}
		}
	}
}
