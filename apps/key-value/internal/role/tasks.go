package role

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"time"

	"tailor/apps/common/service"
	"tailor/apps/key-value/internal/client"
	"tailor/apps/key-value/internal/dialect"
	"tailor/apps/key-value/internal/record"
)

// Tasks make and check the records with the keys from 0 on, whatever the engine.
func Tasks() map[string]service.Task {
	return map[string]service.Task{"prepare": task(prepare), "check": task(check)}
}

// taskTimeout bounds connecting and each exchange; a server may be loading its records.
const taskTimeout = 60 * time.Second

// taskBatch is how many records a task asks for, or stores, at once.
const taskBatch = 256

// piece is some neighbouring records.
type piece struct {
	keys   []uint64
	values [][]byte
	found  []bool
}

func newPiece() *piece {
	p := &piece{keys: make([]uint64, taskBatch), values: make([][]byte, taskBatch), found: make([]bool, taskBatch)}
	for i := range p.values {
		p.values[i] = make([]byte, record.Size)
	}
	return p
}

// task reads the arguments and calls do with every piece of the records.
func task(do func(connection *client.Connection, p *piece) error) service.Task {
	return func(ctx context.Context, arguments []string) error {
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		address := flags.String("address", Name+BinaryAddress, "of the service: host:port")
		records := flags.Uint64("records", 100_000, "how many: their keys are 0 to one less")
		if err := flags.Parse(arguments); err != nil {
			return err
		}
		connection, err := connect(ctx, *address)
		if err != nil {
			return err
		}
		defer connection.Close()
		whole := newPiece()
		for first := uint64(0); first < *records; first += taskBatch {
			if err := ctx.Err(); err != nil {
				return err
			}
			count := min(taskBatch, *records-first)
			p := &piece{whole.keys[:count], whole.values[:count], whole.found[:count]}
			for i := range p.keys {
				p.keys[i] = first + uint64(i)
			}
			if err := connection.Get(p.keys, p.values, p.found); err != nil {
				return err
			}
			if err := do(connection, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// connect tries until the task is ended: the service may be starting.
func connect(ctx context.Context, address string) (*client.Connection, error) {
	for {
		connection, err := client.Dial(address, dialect.Native{}, taskTimeout)
		if err == nil {
			return connection, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// prepare stores the records that are not there.
func prepare(connection *client.Connection, p *piece) error {
	var keys []uint64
	var values [][]byte
	for i, key := range p.keys {
		if !p.found[i] {
			fill(p.values[i], key)
			keys, values = append(keys, key), append(values, p.values[i])
		}
	}
	if len(keys) == 0 {
		return nil
	}
	_, refusal, err := connection.Put(keys, values)
	return errors.Join(refusal, err)
}

// fill makes the first value of a key: numbers that no other record has, so that nothing can be compressed or confused.
func fill(value []byte, key uint64) {
	state := key
	for at := 0; at < len(value); at += 8 { // SplitMix64 (Steele et al., OOPSLA 2014)
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(value[at:], z^z>>31)
	}
}

// check fails where a record is missing.
func check(_ *client.Connection, p *piece) error {
	for i, key := range p.keys {
		if !p.found[i] {
			return fmt.Errorf("record %d is missing", key)
		}
	}
	return nil
}
