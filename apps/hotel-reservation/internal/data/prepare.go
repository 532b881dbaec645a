package data

import (
	"context"
	"encoding/json"
	"flag"
	"strconv"
	"time"

	"tailor/apps/common/fixture"
	"tailor/apps/hotel-reservation/internal/api"
	"tailor/apps/hotel-reservation/internal/reservation"
)

// Prepare fills the caches from the databases: `prepare [--only NAME]...`.
func Prepare(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("prepare", flag.ContinueOnError)
	var only fixture.Names
	flags.Var(&only, "only", "fill only this service's cache; may be repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return fixture.RunTasks(ctx, []fixture.Task{
		{Name: "rate", Run: prepareRates},
		{Name: "profile", Run: prepareProfiles},
		{Name: "reservation", Run: prepareNights},
	}, only)
}

func prepareNights(ctx context.Context) (string, error) {
	var hotel, taken, capacity int64
	var night time.Time
	query := "SELECT hotel_id, night, taken, capacity FROM nights ORDER BY hotel_id, night"
	return fixture.CacheRows(ctx, ReservationDB, query, ReservationMemcached, []any{&hotel, &night, &taken, &capacity},
		func() (string, []byte, error) {
			return reservation.Key(hotel, night.Format(time.DateOnly)), reservation.Value(taken, capacity), nil
		})
}

// prepareProfiles writes each profile as the service itself would cache it.
func prepareProfiles(ctx context.Context) (string, error) {
	var one api.HotelProfile
	var address, images []byte
	query := "SELECT hotel_id, name, phone_number, description, address, images FROM profiles ORDER BY hotel_id"
	into := []any{&one.ID, &one.Name, &one.PhoneNumber, &one.Description, &address, &images}
	return fixture.CacheRows(ctx, ProfileDB, query, ProfileMemcached, into, func() (string, []byte, error) {
		if err := json.Unmarshal(address, &one.Address); err != nil {
			return "", nil, err
		}
		if err := json.Unmarshal(images, &one.Images); err != nil {
			return "", nil, err
		}
		value, err := json.Marshal(&one)
		return "profile:" + strconv.FormatInt(one.ID, 10), value, err
	})
}

// prepareRates writes all plans of a hotel under one key; PostgreSQL makes the list.
func prepareRates(ctx context.Context) (string, error) {
	var hotel int64
	var plans []byte
	query := `
		SELECT hotel_id, json_agg(json_build_object('hotelId', hotel_id, 'code', code, 'inDate', in_date, 'outDate', out_date,
			'roomType', json_build_object('bookableRate', bookable, 'totalRate', total, 'totalRateInclusive', inclusive,
				'code', room_code, 'currency', currency, 'roomDescription', description)) ORDER BY code)
		FROM rates GROUP BY hotel_id ORDER BY hotel_id`
	return fixture.CacheRows(ctx, RateDB, query, RateMemcached, []any{&hotel, &plans},
		func() (string, []byte, error) { return "rate:" + strconv.FormatInt(hotel, 10), plans, nil })
}
