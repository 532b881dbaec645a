package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Redis is a redis server behind a bounded pool of connections; each call is a client span that includes the wait
// for a connection.
type Redis struct {
	client *redis.Client
	spans  storeSpans
	peer   string
}

// Redis opens the redis of the compose service peer. REDIS_CONNECTIONS bounds the pool; unset, go-redis chooses.
func (s *Service) Redis(peer string) (*Redis, error) { return s.RedisAt(peer, peer+":6379") }

// RedisAt is Redis at another address, such as a test's.
func (s *Service) RedisAt(peer, address string) (*Redis, error) {
	connections, _, err := s.parameters.given(RedisConnections)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{
		Addr:     address,
		PoolSize: connections, // zero is go-redis's default
		// PoolSize alone may be exceeded by pipelines; this makes it the bound.
		MaxActiveConns:           connections,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.parameters.Watch(RedisConnections, func() int64 { return int64(client.Options().PoolSize) })
	r := &Redis{client: client, peer: peer, spans: storeSpans{tracing: s.tracing, system: "redis", peer: peer}}
	s.OnHealth(func(ctx context.Context) error { return r.failure(client.Ping(ctx).Err()) })
	s.OnClose(func() { _ = client.Close() })
	return r, nil
}

// Do runs one use of the client as one span. A redis.Nil from call is no failure, and returned as nil: call sees it.
func (r *Redis) Do(ctx context.Context, operation string, call func(context.Context, *redis.Client) error) (err error) {
	ctx, span := r.spans.start(ctx, operation)
	defer func() { r.spans.end(span, err) }()
	err = call(ctx, r.client)
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return r.failure(err)
}

func (r *Redis) failure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", r.peer, err)
}
