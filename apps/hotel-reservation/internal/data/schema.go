// Package data makes the state that every repetition starts from, and checks that a configuration keeps it: Seed fills
// the databases once (the volumes are then kept), Prepare fills the caches from the databases before each load, and
// Check reserves and reads through the front end. The same arguments give the same rows, whatever the machine.
package data

import "tailor/apps/common/fixture"

// Hosts of the stores: the names of the compose services, as the logic services know them too.
const (
	GeoDB            = "geo-db"
	RateDB           = "rate-db"
	ProfileDB        = "profile-db"
	RecommendationDB = "recommendation-db"
	UserDB           = "user-db"
	ReservationDB    = "reservation-db"

	RateMemcached        = "rate-memcached:11211"
	ProfileMemcached     = "profile-memcached:11211"
	ReservationMemcached = "reservation-memcached:11211"
)

var (
	pointsTable = fixture.Table{
		Name:    "points",
		Columns: []string{"hotel_id", "lat", "lon"},
		Create:  `CREATE TABLE points (hotel_id bigint NOT NULL, lat double precision NOT NULL, lon double precision NOT NULL)`,
		Index:   []string{`ALTER TABLE points ADD PRIMARY KEY (hotel_id)`},
	}
	ratesTable = fixture.Table{
		Name: "rates",
		Columns: []string{
			"hotel_id", "code", "in_date", "out_date", "bookable", "total", "inclusive", "room_code", "currency", "description",
		},
		Create: `CREATE TABLE rates (hotel_id bigint NOT NULL, code text NOT NULL, in_date text NOT NULL, out_date text NOT NULL,
			bookable double precision NOT NULL, total double precision NOT NULL, inclusive double precision NOT NULL,
			room_code text NOT NULL, currency text NOT NULL, description text NOT NULL)`,
		Index: []string{`ALTER TABLE rates ADD PRIMARY KEY (hotel_id, code)`},
	}
	profilesTable = fixture.Table{
		Name:    "profiles",
		Columns: []string{"hotel_id", "name", "phone_number", "description", "address", "images"},
		Create: `CREATE TABLE profiles (hotel_id bigint NOT NULL, name text NOT NULL, phone_number text NOT NULL,
			description text NOT NULL, address jsonb NOT NULL, images jsonb NOT NULL)`,
		Index: []string{`ALTER TABLE profiles ADD PRIMARY KEY (hotel_id)`},
	}
	hotelsTable = fixture.Table{
		Name:    "hotels",
		Columns: []string{"hotel_id", "lat", "lon", "rating", "price"},
		Create: `CREATE TABLE hotels (hotel_id bigint NOT NULL, lat double precision NOT NULL, lon double precision NOT NULL,
			rating double precision NOT NULL, price double precision NOT NULL)`,
		Index: []string{`ALTER TABLE hotels ADD PRIMARY KEY (hotel_id)`},
	}
	usersTable = fixture.Table{
		Name:    "users",
		Columns: []string{"username", "password_hash"},
		Create:  `CREATE TABLE users (username text NOT NULL, password_hash text NOT NULL)`,
		Index:   []string{`ALTER TABLE users ADD PRIMARY KEY (username)`},
	}
	nightsTable = fixture.Table{
		Name:    "nights",
		Columns: []string{"hotel_id", "night", "taken", "capacity"},
		Create: `CREATE TABLE nights (hotel_id bigint NOT NULL, night date NOT NULL, taken bigint NOT NULL,
			capacity bigint NOT NULL, CHECK (taken <= capacity))`,
		Index: []string{`ALTER TABLE nights ADD PRIMARY KEY (hotel_id, night)`},
	}
	reservationsTable = fixture.Table{
		Name:    "reservations",
		Columns: []string{"hotel_id", "customer", "in_date", "out_date", "rooms"},
		Create: `CREATE TABLE reservations (reservation_id bigint GENERATED ALWAYS AS IDENTITY, hotel_id bigint NOT NULL,
			customer text NOT NULL, in_date date NOT NULL, out_date date NOT NULL, rooms bigint NOT NULL)`,
		Index: []string{
			`ALTER TABLE reservations ADD PRIMARY KEY (reservation_id)`,
			`CREATE INDEX reservations_customer ON reservations (customer)`,
		},
	}
)
