package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrConflict is a row that is there already under a unique key.
var ErrConflict = errors.New("exists already")

// uniqueViolation is PostgreSQL's SQLSTATE for ErrConflict (manual, appendix A).
const uniqueViolation = "23505"

// Database is a PostgreSQL server behind a bounded pool of connections; each statement is a client span that
// includes the wait for a connection.
type Database struct {
	pool  *pgxpool.Pool
	spans storeSpans
	peer  string
}

// Database opens the database of the compose service peer; connections are made when they are first needed.
// DATABASE_CONNECTIONS bounds the pool; unset, pgxpool chooses.
func (s *Service) Database(ctx context.Context, peer string) (*Database, error) {
	return s.DatabaseAt(ctx, peer, "postgres://postgres:postgres@"+peer+":5432/postgres?sslmode=disable")
}

// DatabaseAt is Database at another address, such as a test's.
func (s *Service) DatabaseAt(ctx context.Context, peer, address string) (*Database, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", peer, err)
	}
	connections, isSet, err := s.parameters.given(DatabaseConnections)
	if err != nil {
		return nil, err
	}
	if isSet {
		config.MaxConns = int32(connections)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", peer, err)
	}
	s.parameters.Watch(DatabaseConnections, func() int64 { return int64(pool.Stat().MaxConns()) })
	d := &Database{pool: pool, peer: peer, spans: storeSpans{tracing: s.tracing, system: "postgresql", peer: peer}}
	s.OnHealth(func(ctx context.Context) error { return d.failure(pool.Ping(ctx)) })
	s.OnClose(pool.Close)
	return d, nil
}

// Execute runs a statement and returns the number of rows that it changed. A unique violation is ErrConflict.
func (d *Database) Execute(ctx context.Context, operation, statement string, arguments ...any) (rows int64, err error) {
	ctx, span := d.spans.start(ctx, operation)
	defer func() { d.spans.end(span, err) }()
	tag, err := d.pool.Exec(ctx, statement, arguments...)
	if err != nil {
		return 0, d.failure(err)
	}
	return tag.RowsAffected(), nil
}

// Select runs a query and calls row on each of its rows; row scans the columns.
func (d *Database) Select(
	ctx context.Context, operation, query string, row func(scan func(...any) error) error, arguments ...any,
) (err error) {
	ctx, span := d.spans.start(ctx, operation)
	defer func() { d.spans.end(span, err) }()
	rows, err := d.pool.Query(ctx, query, arguments...)
	if err != nil {
		return d.failure(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return d.failure(err)
		}
	}
	return d.failure(rows.Err())
}

// SelectOne runs a query for at most one row into targets and says whether there was one.
func (d *Database) SelectOne(
	ctx context.Context, operation, query string, targets []any, arguments ...any,
) (found bool, err error) {
	ctx, span := d.spans.start(ctx, operation)
	defer func() { d.spans.end(span, err) }()
	err = d.pool.QueryRow(ctx, query, arguments...).Scan(targets...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, d.failure(err)
}

func (d *Database) failure(err error) error {
	if err == nil {
		return nil
	}
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == uniqueViolation {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return fmt.Errorf("%s: %w", d.peer, err)
}
