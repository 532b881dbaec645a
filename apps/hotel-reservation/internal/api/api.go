// Package api is the language that the logic services of the hotel reservation speak with each other: JSON over
// HTTP/1.1. One package holds all of it, so that a caller and its service cannot drift apart.
package api

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"tailor/apps/common/service"
)

// Names of the logic services, which are also their roles and their compose services.
const (
	Frontend       = "frontend"
	Search         = "search"
	Geo            = "geo"
	Rate           = "rate"
	Profile        = "profile"
	Recommendation = "recommendation"
	User           = "user"
	Reservation    = "reservation"
)

// Paths that clients use: those of DeathStarBench's hotel reservation.
const (
	PathHotels          = "/hotels"          // GET inDate, outDate, lat, lon -> FeatureCollection
	PathRecommendations = "/recommendations" // GET require=dis|rate|price, lat, lon -> FeatureCollection
	PathUser            = "/user"            // GET or POST username, password -> Message
	PathReservation     = "/reservation"     // GET or POST inDate, outDate, hotelId, customerName, username, password, number -> Message
)

// Paths of the internal calls.
const (
	PathNearbyOffers = "/offers"       // GET lat, lon, inDate, outDate -> HotelIDs, the cheapest first
	PathNearby       = "/nearby"       // GET lat, lon -> HotelIDs, the nearest first
	PathRates        = "/rates"        // GET hotelIds, inDate, outDate -> RatePlans, the cheapest first
	PathProfiles     = "/profiles"     // GET hotelIds -> [HotelProfile] in that order
	PathRecommend    = "/recommend"    // GET require, lat, lon -> HotelIDs, the best first
	PathCheckUser    = "/users/check"  // GET username, password -> Checked
	PathAvailable    = "/availability" // GET hotelIds, inDate, outDate, number -> HotelIDs, those with room
	PathReserve      = "/reservations" // POST ReserveRequest -> Reserved
)

// Texts of a Message, as the original's.
const (
	LoggedIn     = "Login successfully!"
	NotLoggedIn  = "Failed. Please check your username and password. "
	Done         = "Reserve successfully!"
	FullyBooked  = "Failed. Already reserved. "
	MaxHotels    = 64 // of one request
	MaxNights    = 31
	layout       = "2006-01-02"
	hoursOfADay  = 24
	maxRooms     = 1000
	maxNameBytes = 64
)

// Message answers a login or a reservation.
type Message struct {
	Message string `json:"message"`
}

// FeatureCollection is GeoJSON (RFC 7946): a point for each hotel.
type FeatureCollection struct {
	Type     string    `json:"type"`
	Features []Feature `json:"features"`
}

// Feature is one hotel on a map.
type Feature struct {
	Type       string            `json:"type"`
	ID         string            `json:"id"`
	Properties map[string]string `json:"properties"`
	Geometry   Geometry          `json:"geometry"`
}

// Geometry is a point: longitude and latitude in degrees.
type Geometry struct {
	Type        string     `json:"type"`
	Coordinates [2]float64 `json:"coordinates"`
}

// HotelIDs is a list of hotels.
type HotelIDs struct {
	HotelIDs []int64 `json:"hotelIds"`
}

// RatePlan is what a hotel asks for a night between two dates, the second not included.
type RatePlan struct {
	HotelID  int64    `json:"hotelId"`
	Code     string   `json:"code"`
	InDate   string   `json:"inDate"`
	OutDate  string   `json:"outDate"`
	RoomType RoomType `json:"roomType"`
}

// RoomType is a kind of room with its prices.
type RoomType struct {
	Bookable    float64 `json:"bookableRate"`
	Total       float64 `json:"totalRate"`
	Inclusive   float64 `json:"totalRateInclusive"`
	Code        string  `json:"code"`
	Currency    string  `json:"currency"`
	Description string  `json:"roomDescription"`
}

// RatePlans answers a request for rates.
type RatePlans struct {
	RatePlans []RatePlan `json:"ratePlans"`
}

// HotelProfile is what a guest reads about a hotel.
type HotelProfile struct {
	ID          int64    `json:"id"`
	Name        string   `json:"name"`
	PhoneNumber string   `json:"phoneNumber"`
	Description string   `json:"description"`
	Address     Address  `json:"address"`
	Images      []string `json:"images"`
}

// Address is where a hotel stands.
type Address struct {
	StreetNumber string  `json:"streetNumber"`
	StreetName   string  `json:"streetName"`
	City         string  `json:"city"`
	State        string  `json:"state"`
	Country      string  `json:"country"`
	PostalCode   string  `json:"postalCode"`
	Lat          float64 `json:"lat"`
	Lon          float64 `json:"lon"`
}

// Checked says whether a user gave the right password.
type Checked struct {
	Correct bool `json:"correct"`
}

// ReserveRequest asks for rooms of a hotel for some nights.
type ReserveRequest struct {
	HotelID  int64  `json:"hotelId"`
	Customer string `json:"customerName"`
	InDate   string `json:"inDate"`
	OutDate  string `json:"outDate"`
	Rooms    int64  `json:"roomNumber"`
}

// Reserved says whether there was room.
type Reserved struct {
	Done bool `json:"done"`
}

// Place is where somebody looks for a hotel, in degrees.
type Place struct{ Lat, Lon float64 }

// PlaceOf reads lat and lon of a query.
func PlaceOf(query url.Values) (Place, error) {
	var place Place
	for name, into := range map[string]*float64{"lat": &place.Lat, "lon": &place.Lon} {
		value, err := strconv.ParseFloat(query.Get(name), 64)
		if err != nil || !(value >= -180 && value <= 180) {
			return Place{}, service.BadRequest("%s=%q: degrees are needed", name, query.Get(name))
		}
		*into = value
	}
	return place, nil
}

// Query is the place as PlaceOf reads it.
func (p Place) Query() url.Values {
	return url.Values{"lat": {strconv.FormatFloat(p.Lat, 'f', -1, 64)}, "lon": {strconv.FormatFloat(p.Lon, 'f', -1, 64)}}
}

// Stay is the nights from In to Out, Out not included; both at midnight UTC.
type Stay struct{ In, Out time.Time }

// StayOf reads two dates such as 2015-04-09.
func StayOf(in, out string) (Stay, error) {
	first, err := time.Parse(layout, in)
	if err != nil {
		return Stay{}, service.BadRequest("inDate=%q: a date such as 2015-04-09 is needed", in)
	}
	last, err := time.Parse(layout, out)
	if err != nil {
		return Stay{}, service.BadRequest("outDate=%q: a date such as 2015-04-10 is needed", out)
	}
	stay := Stay{first, last}
	if nights := stay.Count(); nights < 1 || nights > MaxNights {
		return Stay{}, service.BadRequest("%s to %s: 1 to %d nights are needed", in, out, MaxNights)
	}
	return stay, nil
}

// Count is the number of nights.
func (s Stay) Count() int { return int(s.Out.Sub(s.In).Hours() / hoursOfADay) }

// Nights are the dates of the nights.
func (s Stay) Nights() []string {
	nights := make([]string, 0, s.Count())
	for day := s.In; day.Before(s.Out); day = day.AddDate(0, 0, 1) {
		nights = append(nights, day.Format(layout))
	}
	return nights
}

// Query is the stay as StayOf reads it.
func (s Stay) Query() url.Values {
	return url.Values{"inDate": {s.In.Format(layout)}, "outDate": {s.Out.Format(layout)}}
}

// HotelsOf reads a list of hotels such as 1,2,3; nothing at all is an empty list.
func HotelsOf(query url.Values) ([]int64, error) {
	given := query.Get("hotelIds")
	if given == "" {
		return nil, nil
	}
	texts := strings.Split(given, ",")
	if len(texts) > MaxHotels {
		return nil, service.BadRequest("%d hotels, at most %d", len(texts), MaxHotels)
	}
	hotels := make([]int64, len(texts))
	for i, text := range texts {
		var err error
		if hotels[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, service.BadRequest("%q is no hotel", text)
		}
	}
	return hotels, nil
}

// HotelsQuery is a list of hotels as HotelsOf reads it.
func HotelsQuery(hotels []int64) url.Values {
	texts := make([]string, len(hotels))
	for i, hotel := range hotels {
		texts[i] = strconv.FormatInt(hotel, 10)
	}
	return url.Values{"hotelIds": {strings.Join(texts, ",")}}
}

// RoomsOf reads a number of rooms; one where none is given.
func RoomsOf(query url.Values) (int64, error) {
	if !query.Has("number") {
		return 1, nil
	}
	rooms, err := service.IntegerOf(query, "number")
	if err == nil && (rooms < 1 || rooms > maxRooms) {
		err = service.BadRequest("number=%d: 1 to %d rooms can be had", rooms, maxRooms)
	}
	return rooms, err
}

// NameOf reads a name that a form must have.
func NameOf(query url.Values, name string) (string, error) {
	value := query.Get(name)
	if value == "" || len(value) > maxNameBytes {
		return "", service.BadRequest("%s=%q: 1 to %d characters are needed", name, value, maxNameBytes)
	}
	return value, nil
}

// Merged is the union of queries.
func Merged(queries ...url.Values) url.Values {
	all := url.Values{}
	for _, one := range queries {
		for name, values := range one {
			all[name] = values
		}
	}
	return all
}
