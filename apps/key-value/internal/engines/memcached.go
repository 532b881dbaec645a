package engines

import (
	"context"

	"tailor/apps/key-value/internal/dialect"
)

func init() { known["memcached"] = openMemcached }

// openMemcached stores the records in a memcached, under the decimal number of the key. It forgets the least recently
// used ones when its memory is full: a get of them finds nothing.
func openMemcached(ctx context.Context, options Options) (Engine, error) {
	return newPeer(ctx, "memcached", dialect.Memcached{}, options, hasPrefix("SERVER_ERROR out of memory"))
}
