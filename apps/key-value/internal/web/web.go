// Package web answers over HTTP what the binary protocol answers: for programs that have no client of it, and for load
// generators that speak HTTP.
package web

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tailor/apps/common/service"
	"tailor/apps/key-value/internal/engines"
	"tailor/apps/key-value/internal/record"
	"tailor/apps/key-value/internal/wire"
)

const octets = "application/octet-stream"

// mostKeys of one request; so many records fit into service.MaxBodyBytes.
const mostKeys = min(wire.MaxCount, service.MaxBodyBytes/record.PairSize)

// Register adds the routes of an engine to a service.
func Register(s *service.Service, engine engines.Engine) {
	records := &records{engine}
	s.Handle("GET /records/{key}", records.get)
	s.Handle("PUT /records/{key}", records.put)
	s.Handle("GET /records", records.getBatch)
	s.Handle("PUT /records", records.putBatch)
}

type records struct{ engine engines.Engine }

func keyOf(text string) (uint64, error) {
	key, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, service.BadRequest("key %q: a whole number of 64 bits is needed", text)
	}
	return key, nil
}

// timed tells the internal latency as the Server-Timing header does (w3c.github.io/server-timing), in ms.
func timed(w http.ResponseWriter, start time.Time) {
	took := float64(time.Since(start).Nanoseconds()) / 1e6
	w.Header()["Server-Timing"] = []string{"engine;dur=" + strconv.FormatFloat(took, 'f', 6, 64)}
}

func (h *records) get(w http.ResponseWriter, r *http.Request) error {
	key, err := keyOf(r.PathValue("key"))
	if err != nil {
		return err
	}
	values, found, err := h.read(w, []uint64{key})
	if err != nil {
		return err
	}
	if !found[0] {
		return service.NotFound("there is no record %d", key)
	}
	return service.WriteBody(w, octets, values[0])
}

// read gets records, and tells how long it took.
func (h *records) read(w http.ResponseWriter, keys []uint64) (values [][]byte, found []bool, err error) {
	space := make([]byte, len(keys)*record.Size)
	values, found = make([][]byte, len(keys)), make([]bool, len(keys))
	for number := range keys {
		values[number] = space[number*record.Size:][:record.Size]
	}
	start := time.Now()
	err = h.engine.Get(keys, values, found)
	timed(w, start)
	return values, found, err
}

// getBatch replies with key and value of each record that there is, in the order of the keys.
func (h *records) getBatch(w http.ResponseWriter, r *http.Request) error {
	words := strings.Split(r.URL.Query().Get("keys"), ",")
	if len(words) > mostKeys {
		return service.BadRequest("%d keys: allowed is 1 to %d", len(words), mostKeys)
	}
	keys := make([]uint64, len(words))
	for number, word := range words {
		var err error
		if keys[number], err = keyOf(word); err != nil {
			return err
		}
	}
	values, found, err := h.read(w, keys)
	if err != nil {
		return err
	}
	body := make([]byte, 0, len(keys)*record.PairSize)
	for number, key := range keys {
		if found[number] {
			body = append(binary.LittleEndian.AppendUint64(body, key), values[number]...)
		}
	}
	return service.WriteBody(w, octets, body)
}

func (h *records) put(w http.ResponseWriter, r *http.Request) error {
	key, err := keyOf(r.PathValue("key"))
	if err != nil {
		return err
	}
	value, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	if len(value) != record.Size {
		return service.BadRequest("%d bytes: a record has %d", len(value), record.Size)
	}
	return h.write(w, []uint64{key}, [][]byte{value})
}

// putBatch takes what getBatch replies with.
func (h *records) putBatch(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	if len(body) == 0 || len(body)%record.PairSize != 0 || len(body)/record.PairSize > mostKeys {
		return service.BadRequest("%d bytes: needed are %d for each of 1 to %d records", len(body), record.PairSize, mostKeys)
	}
	var keys []uint64
	var values [][]byte
	for at := 0; at < len(body); at += record.PairSize {
		keys = append(keys, binary.LittleEndian.Uint64(body[at:]))
		values = append(values, body[at+record.KeySize:at+record.PairSize])
	}
	return h.write(w, keys, values)
}

func (h *records) write(w http.ResponseWriter, keys []uint64, values [][]byte) error {
	start := time.Now()
	stored, err := h.engine.Put(keys, values)
	if stored > 0 { // all of them, or those before the one that was refused
		if failure := h.engine.Commit(); failure != nil {
			return failure
		}
	}
	if errors.Is(err, engines.ErrFull) {
		text := fmt.Sprintf("%v; %d of %d records are stored", err, stored, len(keys))
		return &service.StatusError{Status: http.StatusInsufficientStorage, Text: text}
	}
	if err != nil {
		return err
	}
	timed(w, start)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
