// Package reservation knows which rooms are taken, and takes more: a cache in front of a database.
//
// The database decides: one statement takes the rooms of all nights of a stay or none, and a constraint keeps every
// night at its capacity. The cache tells searchers how many rooms of a night are taken. That number only grows, so of
// two values the larger is the newer, whoever comes first.
package reservation

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"tailor/apps/common/service"
	"tailor/apps/hotel-reservation/internal/api"
)

type desk struct {
	database *service.Database
	cache    *service.Memcached
}

// New adds the role's routes.
func New(ctx context.Context, s *service.Service) error {
	database, err := s.Database(ctx, "reservation-db")
	if err != nil {
		return err
	}
	cache, err := s.Memcached("reservation-memcached")
	if err != nil {
		return err
	}
	d := &desk{database, cache}
	s.Handle("GET "+api.PathAvailable, d.available)
	s.Handle("POST "+api.PathReserve, d.reserve)
	return nil
}

// Key is a night of a hotel in the cache.
func Key(hotel int64, night string) string {
	return "night:" + strconv.FormatInt(hotel, 10) + ":" + night
}

// Value is what the cache keeps of a night: the rooms that are taken, and those that there are.
func Value(taken, capacity int64) []byte { return fmt.Appendf(nil, "%d/%d", taken, capacity) }

// parsed reads a Value; what is none is as if it were not there.
func parsed(value []byte) (taken, capacity int64, ok bool) {
	n, err := fmt.Sscanf(string(value), "%d/%d", &taken, &capacity)
	return taken, capacity, err == nil && n == 2
}

// newer is the value that the cache should have of a night: nil where the one that is there knows as much.
func newer(taken, capacity int64) func(old []byte) []byte {
	return func(old []byte) []byte {
		if known, _, ok := parsed(old); ok && known >= taken {
			return nil
		}
		return Value(taken, capacity)
	}
}

// available answers with those hotels that have as many rooms for all nights of the stay, in their order.
func (d *desk) available(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	stay, err := api.StayOf(query.Get("inDate"), query.Get("outDate"))
	if err != nil {
		return err
	}
	hotels, err := api.HotelsOf(query)
	if err != nil {
		return err
	}
	rooms, err := api.RoomsOf(query)
	if err != nil {
		return err
	}
	free, err := d.free(r.Context(), hotels, stay)
	if err != nil {
		return err
	}
	answer := api.HotelIDs{HotelIDs: []int64{}}
	for _, hotel := range hotels {
		if free[hotel] >= rooms {
			answer.HotelIDs = append(answer.HotelIDs, hotel)
		}
	}
	return service.WriteJSON(w, answer)
}

// free is the rooms of each hotel that are free in all nights; a night that the hotel does not sell has none.
func (d *desk) free(ctx context.Context, hotels []int64, stay api.Stay) (map[int64]int64, error) {
	nights := stay.Nights()
	keys := make([]string, 0, len(hotels)*len(nights))
	for _, hotel := range hotels {
		for _, night := range nights {
			keys = append(keys, Key(hotel, night))
		}
	}
	if len(keys) == 0 {
		return map[int64]int64{}, nil
	}
	known, err := d.cache.GetMany(ctx, keys)
	if err != nil {
		return nil, err
	}
	if len(known) < len(keys) {
		if err := d.load(ctx, hotels, stay, known); err != nil {
			return nil, err
		}
	}
	free := make(map[int64]int64, len(hotels))
	for i, hotel := range hotels {
		for j, key := range keys[i*len(nights) : (i+1)*len(nights)] {
			taken, capacity, ok := parsed(known[key])
			if left := capacity - taken; !ok {
				free[hotel] = 0
				break
			} else if j == 0 || left < free[hotel] {
				free[hotel] = left
			}
		}
	}
	return free, nil
}

// load adds to known what the database says of nights that are not there, and offers it to the cache.
func (d *desk) load(ctx context.Context, hotels []int64, stay api.Stay, known map[string][]byte) error {
	fills := map[string][]byte{}
	err := d.database.Select(ctx, "SELECT nights", `
		SELECT hotel_id, night, taken, capacity FROM nights WHERE hotel_id = ANY($1) AND night >= $2 AND night < $3`,
		func(scan func(...any) error) error {
			var hotel, taken, capacity int64
			var night time.Time
			if err := scan(&hotel, &night, &taken, &capacity); err != nil {
				return err
			}
			key := Key(hotel, night.Format(time.DateOnly))
			if _, isKnown := known[key]; !isKnown {
				known[key] = Value(taken, capacity)
				fills[key] = known[key]
			}
			return nil
		}, hotels, stay.In, stay.Out)
	if err != nil {
		return err
	}
	return d.cache.AddMany(ctx, fills)
}

// reserve takes rooms for all nights, or none.
func (d *desk) reserve(w http.ResponseWriter, r *http.Request) error {
	var request api.ReserveRequest
	if err := service.ReadJSON(r, &request); err != nil {
		return err
	}
	stay, err := api.StayOf(request.InDate, request.OutDate)
	if err != nil {
		return err
	}
	if request.Customer == "" || request.Rooms < 1 {
		return service.BadRequest("a customer and at least one room are needed")
	}
	done, err := d.take(r.Context(), request, stay)
	if err != nil {
		return err
	}
	return service.WriteJSON(w, api.Reserved{Done: done})
}

// take is one statement, so that it happens whole or not at all. The rows are locked in order: two stays that overlap
// wait for each other and do not deadlock. What locked says is current, for a row is read again once its lock is had.
func (d *desk) take(ctx context.Context, request api.ReserveRequest, stay api.Stay) (bool, error) {
	type night struct {
		date            time.Time
		taken, capacity int64
	}
	var taken []night
	err := d.database.Select(ctx, "UPDATE nights", `
		WITH locked AS MATERIALIZED (
			SELECT night, taken, capacity FROM nights
			WHERE hotel_id = $1 AND night >= $2 AND night < $3 ORDER BY night FOR UPDATE
		), room AS (
			SELECT count(*) = $3::date - $2::date AND bool_and(taken + $4 <= capacity) AS enough FROM locked
		), booked AS (
			INSERT INTO reservations (hotel_id, customer, in_date, out_date, rooms)
			SELECT $1, $5, $2, $3, $4 FROM room WHERE enough
		)
		UPDATE nights SET taken = nights.taken + $4 FROM locked, room
		WHERE room.enough AND nights.hotel_id = $1 AND nights.night = locked.night
		RETURNING nights.night, nights.taken, nights.capacity`,
		func(scan func(...any) error) error {
			var one night
			err := scan(&one.date, &one.taken, &one.capacity)
			taken = append(taken, one)
			return err
		}, request.HotelID, stay.In, stay.Out, request.Rooms, request.Customer)
	if err != nil {
		return false, err
	}
	for _, one := range taken {
		key := Key(request.HotelID, one.date.Format(time.DateOnly))
		if err := d.cache.Update(ctx, key, newer(one.taken, one.capacity)); err != nil {
			return false, err
		}
	}
	return len(taken) > 0, nil
}
