package data

import (
	"context"
	"encoding/json"
	"flag"

	"tailor/apps/common/fixture"
	"tailor/apps/hotel-reservation/internal/user"
)

// Seed fills the databases: `seed [--only NAME]...`.  A table that exists is replaced.
func Seed(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("seed", flag.ContinueOnError)
	var only fixture.Names
	flags.Var(&only, "only", "fill only this database (geo, rate, ...); may be repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	plan := HotelReservation
	return fixture.RunTasks(ctx, []fixture.Task{
		{Name: "geo", Run: fixture.Fill(GeoDB, pointsTable, plan.pointRows())},
		{Name: "rate", Run: fixture.Fill(RateDB, ratesTable, plan.rateRows())},
		{Name: "profile", Run: fixture.Fill(ProfileDB, profilesTable, plan.profileRows())},
		{Name: "recommendation", Run: fixture.Fill(RecommendationDB, hotelsTable, plan.hotelRows())},
		{Name: "user", Run: fixture.Fill(UserDB, usersTable, plan.userRows())},
		{Name: "nights", Run: fixture.Fill(ReservationDB, nightsTable, plan.nightRows())},
		{Name: "reservations", Run: fixture.Fill(ReservationDB, reservationsTable, none)},
	}, only)
}

// none is no rows: nobody has reserved.
func none() fixture.Rows { return func() ([]any, error) { return nil, nil } }

func (p Plan) pointRows() func() fixture.Rows {
	return func() fixture.Rows {
		return fixture.Count(p.Hotels, func(i int) ([]any, error) {
			hotel := int64(i + 1)
			place := p.Place(hotel)
			return []any{hotel, place.Lat, place.Lon}, nil
		})
	}
}

func (p Plan) hotelRows() func() fixture.Rows {
	return func() fixture.Rows {
		return fixture.Count(p.Hotels, func(i int) ([]any, error) {
			hotel := int64(i + 1)
			place := p.Place(hotel)
			return []any{hotel, place.Lat, place.Lon, p.Rating(hotel), p.Price(hotel)}, nil
		})
	}
}

func (p Plan) profileRows() func() fixture.Rows {
	return func() fixture.Rows {
		return fixture.Count(p.Hotels, func(i int) ([]any, error) {
			one := p.Profile(int64(i + 1))
			address, err := json.Marshal(one.Address)
			if err != nil {
				return nil, err
			}
			images, err := json.Marshal(one.Images)
			return []any{one.ID, one.Name, one.PhoneNumber, one.Description, address, images}, err
		})
	}
}

func (p Plan) userRows() func() fixture.Rows {
	return func() fixture.Rows {
		return fixture.Count(p.Users, func(i int) ([]any, error) {
			return []any{Username(i), user.Digest(Password(i))}, nil
		})
	}
}

func (p Plan) rateRows() func() fixture.Rows {
	return perHotel(p.Hotels, func(hotel int64) [][]any {
		var rows [][]any
		for _, plan := range p.Rates(hotel) {
			room := plan.RoomType
			rows = append(rows, []any{
				hotel, plan.Code, plan.InDate, plan.OutDate, room.Bookable, room.Total, room.Inclusive,
				room.Code, room.Currency, room.Description,
			})
		}
		return rows
	})
}

func (p Plan) nightRows() func() fixture.Rows {
	return perHotel(p.Hotels, func(hotel int64) [][]any {
		var rows [][]any
		for _, night := range p.Nights(hotel) {
			rows = append(rows, []any{hotel, night.Date, night.Taken, night.Capacity})
		}
		return rows
	})
}

// perHotel gives the rows of hotel 1, then those of hotel 2, and so on.
func perHotel(hotels int, rowsOf func(hotel int64) [][]any) func() fixture.Rows {
	return func() fixture.Rows {
		hotel := int64(0)
		var left [][]any
		return func() ([]any, error) {
			for len(left) == 0 {
				if hotel++; hotel > int64(hotels) {
					return nil, nil
				}
				left = rowsOf(hotel)
			}
			row := left[0]
			left = left[1:]
			return row, nil
		}
	}
}
