package data

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"tailor/apps/common/fixture"
	"tailor/apps/hotel-reservation/internal/api"
)

// Reservation of the check: the last hotel, in nights that no workload asks for, of which so many rooms are free.
const (
	checkedRooms    = 40
	checkedCustomer = "tailor check"
	attemptsAtOnce  = 16
	checkedPlaces   = 12
)

var checkedNights = [3]time.Time{lastNight.AddDate(0, 0, -10), lastNight.AddDate(0, 0, -9), lastNight.AddDate(0, 0, -8)}

func (p Plan) isChecked(hotel int64, night time.Time) bool {
	return hotel == int64(p.Hotels) && slices.ContainsFunc(checkedNights[:], night.Equal)
}

// Check proves that a configuration keeps what it is given and never overbooks: `check [write] [verify]`, both in turn
// where none is named.
//
// write reserves more rooms than there are, many at once and for stays that overlap. verify compares every night with
// the reservations that the database holds, searches and recommends with warm caches and with empty ones, which must
// give the same, and compares what the service says is free with the database. The error names what was lost.
func Check(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	front := flags.String("front", "http://frontend:8080", "address of the front end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c := &check{plan: HotelReservation, front: fixture.NewCaller(*front)}
	known := map[string]func(context.Context) error{"write": c.write, "verify": c.verify}
	steps := flags.Args()
	if len(steps) == 0 {
		steps = []string{"write", "verify"}
	}
	for _, step := range steps {
		do, ok := known[step]
		if !ok {
			return errors.New("usage: check [--front URL] [write] [verify]")
		}
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

type check struct {
	plan  Plan
	front *fixture.Caller
}

// stays are the two that the check reserves in turn: they share a night, which is the one that fills up.
func stays() [2]api.Stay {
	after := checkedNights[2].AddDate(0, 0, 1)
	return [2]api.Stay{{In: checkedNights[0], Out: checkedNights[2]}, {In: checkedNights[1], Out: after}}
}

// write asks for half as many rooms again as the shared night has, one at a time.
func (c *check) write(ctx context.Context) error {
	before, err := c.bookings(ctx)
	if err != nil {
		return err
	}
	wanted := checkedRooms - before // a check may run twice
	var lost fixture.Losses
	var mutex sync.Mutex
	var waiting sync.WaitGroup
	places := make(chan struct{}, attemptsAtOnce)
	done := 0
	for n := range checkedRooms * 3 / 2 {
		waiting.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			ok, err := c.reserve(ctx, stays()[n%2])
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil {
				lost.Add("reservation %d: %v", n, err)
			} else if ok {
				done++
			}
		})
	}
	waiting.Wait()
	if done != wanted {
		lost.Add("%d reservations were accepted for %d free rooms", done, wanted)
	}
	after, err := c.bookings(ctx)
	if err != nil {
		return err
	}
	if after-before != done {
		lost.Add("%d reservations were accepted and %d are in the database", done, after-before)
	}
	return lost.Report("%d of %d reservations accepted, as many as there was room for", done, checkedRooms*3/2)
}

// bookings is the number of the check's own reservations in the database.
func (c *check) bookings(ctx context.Context) (count int, err error) {
	query := "SELECT count(*) FROM reservations WHERE customer = '" + checkedCustomer + "'"
	err = fixture.EachRow(ctx, ReservationDB, query, []any{&count}, func() error { return nil })
	return count, err
}

func (c *check) reserve(ctx context.Context, stay api.Stay) (bool, error) {
	query := api.Merged(stay.Query(), url.Values{
		"hotelId": {strconv.Itoa(c.plan.Hotels)}, "customerName": {checkedCustomer}, "number": {"1"},
		"username": {Username(1)}, "password": {Password(1)},
	})
	var answer api.Message
	if err := c.front.Get(ctx, api.PathReservation, query, &answer); err != nil {
		return false, err
	}
	if answer.Message != api.Done && answer.Message != api.FullyBooked {
		return false, fmt.Errorf("the answer is %q", answer.Message)
	}
	return answer.Message == api.Done, nil
}

func (c *check) verify(ctx context.Context) error {
	var lost fixture.Losses
	free, err := c.compareNights(ctx, &lost)
	if err != nil {
		return err
	}
	c.logins(ctx, &lost)
	warm := c.answers(ctx, free, &lost)
	if err := fixture.Flush(ctx, []string{RateMemcached, ProfileMemcached, ReservationMemcached}); err != nil {
		return err
	}
	cold := c.answers(ctx, free, &lost)
	for name, hotels := range warm {
		if !slices.Equal(hotels, cold[name]) {
			lost.Add("%s: %v with caches, %v without", name, hotels, cold[name])
		}
	}
	return lost.Report("%d nights hold what was reserved, %d searches give the same with and without caches", len(free), len(warm))
}

// compareNights compares every night with what was seeded and reserved since, and returns the free rooms of each.
func (c *check) compareNights(ctx context.Context, lost *fixture.Losses) (map[string]int64, error) {
	reserved := map[string]int64{}
	var hotel, rooms int64
	var in, out, night time.Time
	err := fixture.EachRow(ctx, ReservationDB, "SELECT hotel_id, in_date, out_date, rooms FROM reservations",
		[]any{&hotel, &in, &out, &rooms}, func() error {
			for _, date := range (api.Stay{In: in, Out: out}).Nights() {
				reserved[keyOf(hotel, date)] += rooms
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	seeded := map[string]Night{}
	for hotel := range int64(c.plan.Hotels) {
		for _, one := range c.plan.Nights(hotel + 1) {
			seeded[keyOf(hotel+1, one.Date.Format(time.DateOnly))] = one
		}
	}
	free := make(map[string]int64, len(seeded))
	var taken, capacity int64
	err = fixture.EachRow(ctx, ReservationDB, "SELECT hotel_id, night, taken, capacity FROM nights",
		[]any{&hotel, &night, &taken, &capacity}, func() error {
			key := keyOf(hotel, night.Format(time.DateOnly))
			free[key] = capacity - taken
			before, known := seeded[key]
			switch {
			case !known || before.Capacity != capacity:
				lost.Add("%s was not seeded like this", key)
			case taken != before.Taken+reserved[key]:
				lost.Add("%s: %d taken, but %d seeded and %d reserved", key, taken, before.Taken, reserved[key])
			case taken > capacity:
				lost.Add("%s is overbooked: %d of %d", key, taken, capacity)
			}
			return nil
		})
	if err == nil && len(free) != len(seeded) {
		lost.Add("%d of %d nights", len(free), len(seeded))
	}
	return free, err
}

func keyOf(hotel int64, night string) string { return fmt.Sprintf("hotel %d, %s", hotel, night) }

func (c *check) logins(ctx context.Context, lost *fixture.Losses) {
	for password, wanted := range map[string]string{Password(7): api.LoggedIn, Password(8): api.NotLoggedIn} {
		var answer api.Message
		query := url.Values{"username": {Username(7)}, "password": {password}}
		if err := c.front.Get(ctx, api.PathUser, query, &answer); err != nil {
			lost.Add("login: %v", err)
		} else if answer.Message != wanted {
			lost.Add("login: %q instead of %q", answer.Message, wanted)
		}
	}
}

// answers searches and recommends in places all over the map; it returns which hotels were named.
func (c *check) answers(ctx context.Context, free map[string]int64, lost *fixture.Losses) map[string][]string {
	found := map[string][]string{}
	for n := range checkedPlaces {
		share := (float64(n) + 0.5) / checkedPlaces
		place := api.Place{Lat: south + (north-south)*share, Lon: east + (west-east)*share}
		stay := api.Stay{In: firstNight.AddDate(0, 0, 8+n%3)}
		stay.Out = stay.In.AddDate(0, 0, 1+n%5)
		name := fmt.Sprintf("hotels near place %d", n)
		found[name] = c.hotels(ctx, api.PathHotels, api.Merged(place.Query(), stay.Query()), name, lost)
		c.compareOffers(name, found[name], place, stay, free, lost)
		require := []string{"dis", "rate", "price"}[n%3]
		name = fmt.Sprintf("recommendations (%s) at place %d", require, n)
		query := api.Merged(place.Query(), url.Values{"require": {require}})
		found[name] = c.hotels(ctx, api.PathRecommendations, query, name, lost)
		if len(found[name]) == 0 {
			lost.Add("%s: none", name)
		}
	}
	return found
}

// hotels is the ids of an answer's hotels, whose names and places must be those that were seeded.
func (c *check) hotels(ctx context.Context, path string, query url.Values, name string, lost *fixture.Losses) []string {
	var answer api.FeatureCollection
	if err := c.front.Get(ctx, path, query, &answer); err != nil {
		lost.Add("%s: %v", name, err)
		return nil
	}
	ids := make([]string, 0, len(answer.Features))
	for _, one := range answer.Features {
		ids = append(ids, one.ID)
		hotel, err := strconv.ParseInt(one.ID, 10, 64)
		if err != nil {
			lost.Add("%s: a hotel %q", name, one.ID)
			continue
		}
		seeded := c.plan.Profile(hotel)
		where := [2]float64{seeded.Address.Lon, seeded.Address.Lat}
		if one.Properties["name"] != seeded.Name || one.Geometry.Coordinates != where {
			lost.Add("%s: hotel %s has changed", name, one.ID)
		}
	}
	return ids
}

// compareOffers: of the hotels nearby that have a rate, exactly those with a room for all nights are offered.
func (c *check) compareOffers(
	name string, offered []string, place api.Place, stay api.Stay, free map[string]int64, lost *fixture.Losses,
) {
	for _, hotel := range c.plan.offers(place, stay) {
		room := true
		for _, night := range stay.Nights() {
			room = room && free[keyOf(hotel, night)] > 0
		}
		if text := strconv.FormatInt(hotel, 10); slices.Contains(offered, text) != room {
			lost.Add("%s: hotel %s: room is %t, but offered is %t", name, text, room, !room)
		}
	}
}
