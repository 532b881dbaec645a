package data

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"tailor/apps/common/fixture"
	"tailor/apps/hotel-reservation/internal/api"
	"tailor/apps/hotel-reservation/internal/geo"
	"tailor/apps/hotel-reservation/internal/rate"
)

// Plan says how much there is.  Everything else follows from Seed.
type Plan struct {
	Seed   uint64
	Hotels int // hotel ids 1..Hotels
	Users  int // user ids 0..Users-1
}

// HotelReservation is the plan of the whole application: the original's users, and more hotels than its 80, spread over
// the part of the San Francisco Bay Area in which its workload searches, so that a search has to choose.
var HotelReservation = Plan{Seed: 20150409, Hotels: 1000, Users: 501}

// The nights that can be reserved: those of the original's workload (9 to 24 April 2015) with room on both sides.
var (
	firstNight = time.Date(2015, time.April, 1, 0, 0, 0, 0, time.UTC)
	lastNight  = time.Date(2015, time.May, 31, 0, 0, 0, 0, time.UTC)
)

// Where the original's workload searches, in degrees.
const (
	south, north = 37.783, 38.264
	west, east   = -122.252, -121.927
)

const (
	descriptionBytes = 1200
	imagesPerHotel   = 3
	fullShare        = 0.05 // of the nights that are sold out from the start
)

// kinds of numbers that are drawn for a hotel; each has a stream of its own.
const (
	drawPlace = iota + 1
	drawRating
	drawRates
	drawProfile
	drawNights
)

func (p Plan) rng(kind uint64, hotel int64) *rand.Rand {
	return rand.New(rand.NewPCG(p.Seed, kind<<40+uint64(hotel)))
}

// Place is where a hotel stands.
func (p Plan) Place(hotel int64) api.Place {
	rng := p.rng(drawPlace, hotel)
	return api.Place{Lat: south + (north-south)*rng.Float64(), Lon: west + (east-west)*rng.Float64()}
}

// Price is what a hotel asks for a night, in dollars.
func (p Plan) Price(hotel int64) float64 { return p.Rates(hotel)[0].RoomType.Inclusive }

// Rating is between 0 and 5.
func (p Plan) Rating(hotel int64) float64 { return float64(p.rng(drawRating, hotel).IntN(51)) / 10 }

// Rates are the plans of a hotel: one for everybody, which nine of ten hotels offer for all nights and the others until
// the middle of April, and up to two cheaper ones for some of the nights.
func (p Plan) Rates(hotel int64) []api.RatePlan {
	rng := p.rng(drawRates, hotel)
	price := 80 + float64(rng.IntN(220))
	until := lastNight.AddDate(0, 0, 1)
	if rng.IntN(10) == 0 {
		until = firstNight.AddDate(0, 0, 15)
	}
	plans := []api.RatePlan{plan(hotel, "RACK", firstNight, until, price)}
	for _, code := range []string{"AAA", "CORP"} {
		first := firstNight.AddDate(0, 0, rng.IntN(20))
		length, discount, offered := 5+rng.IntN(20), 0.75+rng.Float64()/5, rng.IntN(2) == 0
		if offered {
			plans = append(plans, plan(hotel, code, first, first.AddDate(0, 0, length), float64(int(price*discount))))
		}
	}
	return plans
}

func plan(hotel int64, code string, in, out time.Time, price float64) api.RatePlan {
	return api.RatePlan{
		HotelID: hotel, Code: code, InDate: in.Format(time.DateOnly), OutDate: out.Format(time.DateOnly),
		RoomType: api.RoomType{
			Bookable: price, Total: price, Inclusive: price + 14, Code: "KNG", Currency: "USD", Description: "King sized bed",
		},
	}
}

// Profile is what a guest reads about a hotel.
func (p Plan) Profile(hotel int64) api.HotelProfile {
	rng := p.rng(drawProfile, hotel)
	place := p.Place(hotel)
	one := api.HotelProfile{
		ID: hotel, Name: fmt.Sprintf("Hotel %d", hotel), PhoneNumber: fmt.Sprintf("(415) 284-%04d", hotel%10000),
		Description: fixture.RandomText(rng, descriptionBytes),
		Address: api.Address{
			StreetNumber: strconv.Itoa(1 + rng.IntN(999)), StreetName: "Street " + fixture.RandomText(rng, 8),
			City: "San Francisco", State: "CA", Country: "United States", PostalCode: strconv.Itoa(94000 + rng.IntN(700)),
			Lat: place.Lat, Lon: place.Lon,
		},
	}
	for number := range imagesPerHotel {
		one.Images = append(one.Images, fmt.Sprintf("http://images.example/%d/%d.jpg", hotel, number))
	}
	return one
}

// Night is a night of a hotel: how many of its rooms are taken before anybody reserves.
type Night struct {
	Date            time.Time
	Taken, Capacity int64
}

// Nights are all nights of a hotel.
func (p Plan) Nights(hotel int64) []Night {
	rng := p.rng(drawNights, hotel)
	capacity := int64(200 + 50*rng.IntN(3))
	var nights []Night
	for date := firstNight; !date.After(lastNight); date = date.AddDate(0, 0, 1) {
		taken, isFull := rng.Int64N(capacity*3/4), rng.Float64() < fullShare
		if isFull {
			taken = capacity
		}
		if p.isChecked(hotel, date) {
			taken = capacity - checkedRooms
		}
		nights = append(nights, Night{date, taken, capacity})
	}
	return nights
}

// Username and Password are the original's: Cornell_7 has the password 7777777777.
func Username(user int) string { return "Cornell_" + strconv.Itoa(user) }

// Password is the user's number ten times.
func Password(user int) string { return strings.Repeat(strconv.Itoa(user), 10) }

// offers is the hotels that a search must weigh: nearby, with a rate for the stay.
func (p Plan) offers(place api.Place, stay api.Stay) []int64 {
	points := make([]geo.Point, p.Hotels)
	for i := range points {
		where := p.Place(int64(i + 1))
		points[i] = geo.Point{HotelID: int64(i + 1), Lat: where.Lat, Lon: where.Lon}
	}
	near := geo.NewIndex(points).Nearest(place, geo.RadiusKM, geo.MaxResults)
	rates := make([][]api.RatePlan, len(near))
	for i, hotel := range near {
		rates[i] = p.Rates(hotel)
	}
	var offers []int64
	for _, plan := range rate.Cheapest(rates, stay) {
		offers = append(offers, plan.HotelID)
	}
	return offers
}
