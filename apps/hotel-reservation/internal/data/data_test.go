package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tailor/apps/common/fixture"
	"tailor/apps/hotel-reservation/internal/api"
)

// TestTheDataNeverChange pins the data to a hash: another hash means that kept volumes and earlier results no longer
// belong to this program, on any machine and with any version of Go.
func TestTheDataNeverChange(t *testing.T) {
	plan := Plan{Seed: HotelReservation.Seed, Hotels: 30, Users: 12}
	digest := func() string {
		hash := sha256.New()
		err := fixture.Write(hash,
			plan.pointRows()(), plan.hotelRows()(), plan.profileRows()(), plan.userRows()(), plan.rateRows()(), plan.nightRows()(),
		)
		if err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(hash.Sum(nil))
	}
	first, second := digest(), digest()
	if first != second {
		t.Errorf("two runs differ: %s and %s", first, second)
	}
	const kept = "2bc90dc166d89b605e80981c706c4a367d24b47bd6598493b96608a5c87e6034"
	if first != kept {
		t.Errorf("the data have changed: %s, kept %s", first, kept)
	}
}

// TestSearchesHaveToChoose: the original's searches find hotels, and not always the same or all of them.
func TestSearchesHaveToChoose(t *testing.T) {
	seen, empty := map[int64]bool{}, 0
	stay := api.Stay{In: firstNight.AddDate(0, 0, 9), Out: firstNight.AddDate(0, 0, 12)}
	for n := range 100 {
		place := api.Place{Lat: south + (north-south)*float64(n)/99, Lon: west + (east-west)*float64(n*37%100)/99}
		offers := HotelReservation.offers(place, stay)
		if len(offers) == 0 {
			empty++
		}
		for _, hotel := range offers {
			seen[hotel] = true
		}
	}
	if empty > 0 || len(seen) < 200 {
		t.Errorf("%d of 100 searches find nothing, and all together %d hotels", empty, len(seen))
	}
}

func TestNightsHaveRoomAndSomeDoNot(t *testing.T) {
	full, all := 0, 0
	for hotel := range int64(HotelReservation.Hotels) {
		for _, night := range HotelReservation.Nights(hotel + 1) {
			all++
			if night.Taken < 0 || night.Taken > night.Capacity {
				t.Fatalf("hotel %d: %+v", hotel+1, night)
			}
			if night.Taken == night.Capacity {
				full++
			}
		}
	}
	if share := float64(full) / float64(all); share < 0.03 || share > 0.07 {
		t.Errorf("%.1f %% of the nights are sold out, wanted about %.0f %%", 100*share, 100*fullShare)
	}
}

func TestTheChecksNightsShareOne(t *testing.T) {
	first, second := stays()[0].Nights(), stays()[1].Nights()
	var shared []string
	for _, night := range first {
		if slices.Contains(second, night) {
			shared = append(shared, night)
		}
	}
	if len(shared) != 1 {
		t.Errorf("shared are %v", shared)
	}
	hotel := int64(HotelReservation.Hotels)
	for _, night := range HotelReservation.Nights(hotel) {
		free := night.Capacity - night.Taken
		if HotelReservation.isChecked(hotel, night.Date) && free != checkedRooms {
			t.Errorf("%s has %d free rooms", night.Date.Format(time.DateOnly), free)
		}
	}
}

// TestTheCheckSeesAWrongOffer: a full hotel that is offered, and a free one that is not.
func TestTheCheckSeesAWrongOffer(t *testing.T) {
	c := &check{plan: HotelReservation}
	place := api.Place{Lat: (south + north) / 2, Lon: (west + east) / 2}
	stay := api.Stay{In: firstNight, Out: firstNight.AddDate(0, 0, 2)}
	free := map[string]int64{}
	offers := c.plan.offers(place, stay)
	var texts []string
	for _, hotel := range offers {
		texts = append(texts, fmt.Sprint(hotel))
		for _, night := range stay.Nights() {
			free[keyOf(hotel, night)] = 1
		}
	}
	said := func(offered []string) string {
		var lost fixture.Losses
		c.compareOffers("search", offered, place, stay, free, &lost)
		return strings.Join(lost, "\n")
	}
	if lost := said(texts); lost != "" {
		t.Fatalf("a correct answer: %s", lost)
	}
	if lost := said(texts[1:]); !strings.Contains(lost, "room is true, but offered is false") {
		t.Errorf("a hotel that is left out: %q", lost)
	}
	free[keyOf(offers[0], stay.Nights()[1])] = 0
	if lost := said(texts); !strings.Contains(lost, "room is false, but offered is true") {
		t.Errorf("a full hotel that is offered: %q", lost)
	}
}
