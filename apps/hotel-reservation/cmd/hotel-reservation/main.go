// Command hotel-reservation is every logic service of the application, with the role as its argument.
package main

import (
	"tailor/apps/common/service"
	"tailor/apps/hotel-reservation/internal/api"
	"tailor/apps/hotel-reservation/internal/data"
	"tailor/apps/hotel-reservation/internal/frontend"
	"tailor/apps/hotel-reservation/internal/geo"
	"tailor/apps/hotel-reservation/internal/profile"
	"tailor/apps/hotel-reservation/internal/rate"
	"tailor/apps/hotel-reservation/internal/recommendation"
	"tailor/apps/hotel-reservation/internal/reservation"
	"tailor/apps/hotel-reservation/internal/search"
	"tailor/apps/hotel-reservation/internal/user"
)

func main() {
	service.Main("hotel-reservation", map[string]service.Role{
		api.Frontend:       frontend.New,
		api.Search:         search.New,
		api.Geo:            geo.New,
		api.Rate:           rate.New,
		api.Profile:        profile.New,
		api.Recommendation: recommendation.New,
		api.User:           user.New,
		api.Reservation:    reservation.New,
	}, map[string]service.Task{"seed": data.Seed, "prepare": data.Prepare, "check": data.Check})
}
