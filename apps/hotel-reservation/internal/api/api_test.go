package api

import (
	"net/url"
	"slices"
	"testing"
)

func TestAStayIsItsNights(t *testing.T) {
	stay, err := StayOf("2015-04-29", "2015-05-02")
	if err != nil {
		t.Fatal(err)
	}
	if nights := stay.Nights(); !slices.Equal(nights, []string{"2015-04-29", "2015-04-30", "2015-05-01"}) {
		t.Errorf("%v", nights)
	}
	again, err := StayOf(stay.Query().Get("inDate"), stay.Query().Get("outDate"))
	if err != nil || again != stay {
		t.Errorf("%v, %v", again, err)
	}
	for _, wrong := range [][2]string{
		{"", "2015-04-10"}, {"2015-04-10", "2015-04-10"}, {"2015-04-10", "2015-04-09"}, {"2015-04-31", "2015-05-02"},
		{"2015-04-01", "2015-06-01"}, {"10 April", "11 April"},
	} {
		if _, err := StayOf(wrong[0], wrong[1]); err == nil {
			t.Errorf("%v is no stay", wrong)
		}
	}
}

func TestQueriesComeBack(t *testing.T) {
	place := Place{38.0235, -122.095}
	if again, err := PlaceOf(place.Query()); err != nil || again != place {
		t.Errorf("%v, %v", again, err)
	}
	hotels := []int64{3, 1, 80}
	if again, err := HotelsOf(HotelsQuery(hotels)); err != nil || !slices.Equal(again, hotels) {
		t.Errorf("%v, %v", again, err)
	}
	for _, wrong := range []url.Values{{"lat": {"x"}, "lon": {"1"}}, {"lat": {"NaN"}, "lon": {"1"}}, {"lat": {"1"}}, {"lat": {"181"}, "lon": {"1"}}} {
		if _, err := PlaceOf(wrong); err == nil {
			t.Errorf("%v is no place", wrong)
		}
	}
	if _, err := HotelsOf(url.Values{"hotelIds": {"1,,2"}}); err == nil {
		t.Error("an empty id is none")
	}
	if rooms, err := RoomsOf(url.Values{}); err != nil || rooms != 1 {
		t.Errorf("%d, %v", rooms, err)
	}
	if _, err := RoomsOf(url.Values{"number": {"0"}}); err == nil {
		t.Error("no room is nothing to reserve")
	}
}
