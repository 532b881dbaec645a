package engines

import (
	"context"
	"errors"

	"tailor/apps/key-value/internal/table"
)

func init() { known["table"] = openTable }

// tableEngine is the table in memory.
type tableEngine struct {
	records *table.Table
}

func openTable(_ context.Context, options Options) (Engine, error) {
	records, err := table.New(options.Records, options.Shards)
	if err != nil {
		return nil, err
	}
	return &tableEngine{records: records}, nil
}

func (e *tableEngine) Get(keys []uint64, into [][]byte, found []bool) error {
	for i, key := range keys {
		found[i] = e.records.Get(key, into[i])
	}
	return nil
}

func (e *tableEngine) Put(keys []uint64, values [][]byte) (int, error) {
	for i, key := range keys {
		if err := e.records.Put(key, values[i], nil); err != nil {
			if errors.Is(err, table.ErrFull) {
				err = ErrFull
			}
			return i, err
		}
	}
	return len(keys), nil
}

func (e *tableEngine) Commit() error { return nil }

func (e *tableEngine) Stats() Stats {
	return Stats{Engine: "table", Records: int64(e.records.Len()), Bytes: int64(e.records.Bytes())}
}

func (e *tableEngine) Close() error {
	e.records.Close()
	return nil
}
