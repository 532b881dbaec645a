package reservation

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"tailor/apps/common/service"
	"tailor/apps/common/storetest"
	"tailor/apps/hotel-reservation/internal/api"
)

const (
	nights = `CREATE TABLE nights (hotel_id bigint, night date, taken bigint, capacity bigint, CHECK (taken <= capacity),
		PRIMARY KEY (hotel_id, night))`
	reservations = `CREATE TABLE reservations (reservation_id bigint GENERATED ALWAYS AS IDENTITY, hotel_id bigint,
		customer text, in_date date, out_date date, rooms bigint)`
	filled = `INSERT INTO nights SELECT hotel, date '2015-04-09' + day, 0, 30
		FROM generate_series(1, 2) hotel, generate_series(0, 4) day`
)

func newDesk(t *testing.T) *desk {
	t.Helper()
	s := storetest.Service(t, api.Reservation)
	return &desk{storetest.Database(t, s, nights, reservations, filled), storetest.Memcached(t, s)}
}

func (d *desk) book(t *testing.T, hotel int64, in, out string, rooms int64) bool {
	t.Helper()
	body, err := json.Marshal(api.ReserveRequest{HotelID: hotel, Customer: "somebody", InDate: in, OutDate: out, Rooms: rooms})
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	if err := d.reserve(answer, httptest.NewRequest("POST", "/", strings.NewReader(string(body)))); err != nil {
		t.Fatal(err)
	}
	var reserved api.Reserved
	if err := json.Unmarshal(answer.Body.Bytes(), &reserved); err != nil {
		t.Fatal(err)
	}
	return reserved.Done
}

func (d *desk) free24(t *testing.T, in, out, rooms string) []int64 {
	t.Helper()
	answer := httptest.NewRecorder()
	query := "/?hotelIds=2,1&inDate=" + in + "&outDate=" + out + "&number=" + rooms
	if err := d.available(answer, httptest.NewRequest("GET", query, nil)); err != nil {
		t.Fatal(err)
	}
	var found api.HotelIDs
	if err := json.Unmarshal(answer.Body.Bytes(), &found); err != nil {
		t.Fatal(err)
	}
	return found.HotelIDs
}

func count(t *testing.T, d *desk, query string) (n int64) {
	t.Helper()
	if _, err := d.database.SelectOne(t.Context(), "SELECT test", query, []any{&n}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAStayIsTakenWholeOrNotAtAll(t *testing.T) {
	d := newDesk(t)
	if !d.book(t, 1, "2015-04-10", "2015-04-12", 25) {
		t.Fatal("there was room")
	}
	if d.book(t, 1, "2015-04-09", "2015-04-11", 6) {
		t.Error("one of the two nights has five rooms left")
	}
	if taken := count(t, d, "SELECT taken FROM nights WHERE hotel_id = 1 AND night = '2015-04-09'"); taken != 0 {
		t.Errorf("a stay that was refused took %d rooms of one of its nights", taken)
	}
	if d.book(t, 1, "2015-04-13", "2015-04-15", 1) {
		t.Error("the hotel does not sell the second night")
	}
	if d.book(t, 9, "2015-04-09", "2015-04-10", 1) {
		t.Error("there is no such hotel")
	}
	if rows := count(t, d, "SELECT count(*) FROM reservations"); rows != 1 {
		t.Errorf("%d reservations are kept, one was made", rows)
	}
}

func TestAvailabilityIsTheSameFromCacheAndDatabase(t *testing.T) {
	d := newDesk(t)
	for range 2 { // from the database, then from the cache
		if free := d.free24(t, "2015-04-09", "2015-04-12", "1"); !slices.Equal(free, []int64{2, 1}) {
			t.Errorf("free are %v", free)
		}
	}
	if !d.book(t, 2, "2015-04-11", "2015-04-12", 30) {
		t.Fatal("there was room")
	}
	if free := d.free24(t, "2015-04-09", "2015-04-12", "1"); !slices.Equal(free, []int64{1}) {
		t.Errorf("after hotel 2 filled up, free are %v", free)
	}
	if free := d.free24(t, "2015-04-09", "2015-04-11", "30"); !slices.Equal(free, []int64{2, 1}) {
		t.Errorf("free before that night are %v", free)
	}
	if free := d.free24(t, "2015-04-12", "2015-04-20", "1"); len(free) != 0 {
		t.Errorf("nights that are not sold are free in %v", free)
	}
}

// TestNobodyIsBookedTwice: far more reservations than rooms, at once, for stays that overlap in both directions, while
// others ask what is free.
func TestNobodyIsBookedTwice(t *testing.T) {
	d := newDesk(t)
	stays := [][2]string{{"2015-04-09", "2015-04-12"}, {"2015-04-11", "2015-04-14"}, {"2015-04-10", "2015-04-13"}}
	var waiting sync.WaitGroup
	var mutex sync.Mutex
	done := 0
	for n := range 120 {
		waiting.Go(func() {
			stay := stays[n%len(stays)]
			if d.book(t, 1, stay[0], stay[1], 1) {
				mutex.Lock()
				done++
				mutex.Unlock()
			}
		})
		if n%10 == 0 {
			waiting.Go(func() { d.free24(t, "2015-04-09", "2015-04-14", "1") })
		}
	}
	waiting.Wait()
	if done != 30 { // the night of the eleventh belongs to all three stays
		t.Errorf("%d of 120 reservations were accepted for 30 rooms", done)
	}
	if rows := count(t, d, "SELECT count(*) FROM reservations"); rows != int64(done) {
		t.Errorf("%d reservations are kept, %d were accepted", rows, done)
	}
	wrong := count(t, d, `SELECT count(*) FROM nights WHERE hotel_id = 1 AND taken <>
		(SELECT coalesce(sum(rooms), 0) FROM reservations WHERE night >= in_date AND night < out_date)`)
	if wrong != 0 {
		t.Errorf("%d nights disagree with the reservations", wrong)
	}
	if free := d.free24(t, "2015-04-11", "2015-04-12", "1"); !slices.Equal(free, []int64{2}) {
		t.Errorf("a full night is free in %v", free)
	}
}

// TestTheNewerValueWins, whoever comes last: a reader that fills the cache with what it read before a reservation, and
// reservations that finish in another order.
func TestTheNewerValueWins(t *testing.T) {
	s := storetest.Service(t, api.Reservation)
	cache := storetest.Memcached(t, s)
	key := Key(1, "2015-04-09")
	update := func(taken int64) {
		if err := cache.Update(t.Context(), key, newer(taken, 30)); err != nil {
			t.Fatal(err)
		}
	}
	update(5)
	update(4)
	if err := cache.AddMany(t.Context(), map[string][]byte{key: Value(3, 30)}); err != nil {
		t.Fatal(err)
	}
	if value := read(t, cache, key); value != "5/30" {
		t.Errorf("the cache says %q", value)
	}
	var waiting sync.WaitGroup
	for taken := range int64(30) {
		waiting.Go(func() { update(taken + 1) })
	}
	waiting.Wait()
	if value := read(t, cache, key); value != "30/30" {
		t.Errorf("after thirty at once the cache says %q", value)
	}
}

func read(t *testing.T, cache *service.Memcached, key string) string {
	t.Helper()
	value, err := cache.Get(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}
