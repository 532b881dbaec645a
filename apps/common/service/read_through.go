package service

import (
	"context"
	"strconv"
)

// ReadThrough finds what belongs to ids, each under prefix and its number: in the cache, and what is not there by load,
// which the cache is then offered. Ids that load does not know are left out. It suits values that do not change: a
// cache can be out of date in one way only then, by not having one.
func ReadThrough(
	ctx context.Context, cache *Memcached, prefix string, ids []int64,
	load func(context.Context, []int64) (map[int64][]byte, error),
) (map[int64][]byte, error) {
	if len(ids) == 0 {
		return map[int64][]byte{}, nil
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = prefix + strconv.FormatInt(id, 10)
	}
	cached, err := cache.GetMany(ctx, keys)
	if err != nil {
		return nil, err
	}
	found := make(map[int64][]byte, len(ids))
	var missing []int64
	for i, id := range ids {
		if value, isCached := cached[keys[i]]; isCached {
			found[id] = value
		} else {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	loaded, err := load(ctx, missing)
	if err != nil {
		return nil, err
	}
	fills := make(map[string][]byte, len(loaded))
	for id, value := range loaded {
		found[id] = value
		fills[prefix+strconv.FormatInt(id, 10)] = value
	}
	return found, cache.SetMany(ctx, fills)
}
