package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// maxCachedBytes is the largest value that is offered to memcached: its item limit (-I) is 1 MiB by default, key and
// header included.
const maxCachedBytes = 1<<20 - 1024

// memcachedTimeout bounds connecting and each exchange: spymemcached's documented default. gomemcache's own 500 ms is
// less than what TCP waits before it repeats a lost first packet (1 s), so that one such packet would be a failure.
const memcachedTimeout = 2500 * time.Millisecond

// Memcached is a memcached server; each call is a client span. Values are immutable in all our uses, so a cache that
// forgets loses nothing.
type Memcached struct {
	client *memcache.Client
	spans  storeSpans
	peer   string
}

// Memcached opens the memcached of the compose service peer. MEMCACHED_CONNECTIONS is how many idle connections are
// kept; those in use are bounded by WORKERS.
func (s *Service) Memcached(peer string) (*Memcached, error) {
	return s.MemcachedAt(peer, peer+":11211")
}

// MemcachedAt is Memcached at another address, such as a test's.
func (s *Service) MemcachedAt(peer, address string) (*Memcached, error) {
	connections, err := s.parameters.Integer(MemcachedConnections, DefaultMemcachedConnections)
	if err != nil {
		return nil, err
	}
	client := memcache.NewFromSelector(&lateServer{address: address})
	client.MaxIdleConns = connections
	client.Timeout = memcachedTimeout
	s.parameters.Watch(MemcachedConnections, func() int64 { return int64(client.MaxIdleConns) })
	m := &Memcached{client: client, peer: peer, spans: storeSpans{tracing: s.tracing, system: "memcached", peer: peer}}
	s.OnHealth(func(context.Context) error { return m.failure(client.Ping()) })
	s.OnClose(func() { _ = client.Close() })
	return m, nil
}

// Get is the value of a key, nil when the cache does not have it.
func (m *Memcached) Get(ctx context.Context, key string) (value []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, m.failure(err)
	}
	_, span := m.spans.start(ctx, "get")
	defer func() { m.spans.end(span, err) }()
	item, err := m.client.Get(key)
	if errors.Is(err, memcache.ErrCacheMiss) {
		return nil, nil
	}
	if err != nil {
		return nil, m.failure(err)
	}
	return item.Value, nil
}

// GetMany is those of keys that the cache has.
func (m *Memcached) GetMany(ctx context.Context, keys []string) (values map[string][]byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, m.failure(err)
	}
	_, span := m.spans.start(ctx, "get_multi")
	defer func() { m.spans.end(span, err) }()
	items, err := m.client.GetMulti(keys)
	if err != nil {
		return nil, m.failure(err)
	}
	values = make(map[string][]byte, len(items))
	for key, item := range items {
		values[key] = item.Value
	}
	return values, nil
}

// Set offers a value to the cache.
func (m *Memcached) Set(ctx context.Context, key string, value []byte) error {
	return m.SetMany(ctx, map[string][]byte{key: value})
}

// SetMany offers values to the cache, one after the other in one span; any that is too large for it is left out.
func (m *Memcached) SetMany(ctx context.Context, values map[string][]byte) (err error) {
	if len(values) == 0 {
		return nil
	}
	ctx, span := m.spans.start(ctx, "set")
	defer func() { m.spans.end(span, err) }()
	for key, value := range values {
		if len(value) > maxCachedBytes {
			continue
		}
		if err := ctx.Err(); err != nil {
			return m.failure(err)
		}
		if err := m.client.Set(&memcache.Item{Key: key, Value: value}); err != nil {
			return m.failure(err)
		}
	}
	return nil
}

// AddMany offers values for keys that the cache does not have; what is there stays.
func (m *Memcached) AddMany(ctx context.Context, values map[string][]byte) (err error) {
	if len(values) == 0 {
		return nil
	}
	ctx, span := m.spans.start(ctx, "add")
	defer func() { m.spans.end(span, err) }()
	for key, value := range values {
		if err := ctx.Err(); err != nil {
			return m.failure(err)
		}
		err := m.client.Add(&memcache.Item{Key: key, Value: value})
		if err != nil && !errors.Is(err, memcache.ErrNotStored) {
			return m.failure(err)
		}
	}
	return nil
}

// maxUpdates bounds how often Update tries again when others change the same key.
const maxUpdates = 100

// Update replaces the value of a key by what change makes of it (nil where the cache has none), atomically: where
// somebody else changed it meanwhile, it is tried again. A nil from change leaves what is there.
func (m *Memcached) Update(ctx context.Context, key string, change func(old []byte) []byte) (err error) {
	ctx, span := m.spans.start(ctx, "cas")
	defer func() { m.spans.end(span, err) }()
	for range maxUpdates {
		if err := ctx.Err(); err != nil {
			return m.failure(err)
		}
		err = m.updateOnce(key, change)
		if !errors.Is(err, memcache.ErrCASConflict) && !errors.Is(err, memcache.ErrNotStored) {
			return m.failure(err)
		}
	}
	return m.failure(err)
}

func (m *Memcached) updateOnce(key string, change func(old []byte) []byte) error {
	item, err := m.client.Get(key)
	if errors.Is(err, memcache.ErrCacheMiss) {
		if value := change(nil); value != nil {
			return m.client.Add(&memcache.Item{Key: key, Value: value})
		}
		return nil
	}
	if err != nil {
		return err
	}
	if item.Value = change(item.Value); item.Value == nil {
		return nil
	}
	err = m.client.CompareAndSwap(item)
	if errors.Is(err, memcache.ErrCacheMiss) { // it was evicted meanwhile
		return memcache.ErrNotStored
	}
	return err
}

func (m *Memcached) failure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", m.peer, err)
}

// lateServer is the one server of a client, looked up once, when it is first needed: memcache.New looks it up at
// once and would tie the order in which containers start.
type lateServer struct {
	address string
	mutex   sync.Mutex
	found   net.Addr
}

func (l *lateServer) PickServer(string) (net.Addr, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.found != nil {
		return l.found, nil
	}
	found, err := net.ResolveTCPAddr("tcp", l.address)
	if err != nil {
		return nil, err
	}
	l.found = found
	return found, nil
}

func (l *lateServer) Each(visit func(net.Addr) error) error {
	server, err := l.PickServer("")
	if err != nil {
		return err
	}
	return visit(server)
}
