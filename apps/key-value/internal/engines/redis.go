package engines

import (
	"context"

	"tailor/apps/key-value/internal/dialect"
)

func init() { known["redis"] = openRedis }

// openRedis stores the records in a redis, under the decimal number of the key.
func openRedis(ctx context.Context, options Options) (Engine, error) {
	return newPeer(ctx, "redis", dialect.Redis{}, options, hasPrefix("OOM "))
}
