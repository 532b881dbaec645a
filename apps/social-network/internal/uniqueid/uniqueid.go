// Package uniqueid gives out numbers that are unique over all processes and grow with time, so that the order of
// ids is the order of posts.
package uniqueid

import (
	"context"
	"hash/fnv"
	"net/http"
	"sync"
	"time"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
)

// The layout of a number, from the top: a zero sign bit, 41 bits of milliseconds since epoch, 10 bits of machine, 12
// bits of counter.
const (
	machineBits = 10
	counterBits = 12
	epochMS     = 1_514_764_800_000 // 2018-01-01: 69 years from there fit
)

// Generator makes numbers; it is safe for concurrent use.
type Generator struct {
	machine int64
	now     func() time.Time
	mutex   sync.Mutex
	lastMS  int64
	counter int64
}

// NewGenerator makes numbers that differ from those of other machine names (but for 1 chance in 1,024).
func NewGenerator(machine string, now func() time.Time) *Generator {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(machine)) // a hash's Write never fails
	return &Generator{machine: int64(hash.Sum32() % (1 << machineBits)), now: now}
}

// Next is a number greater than all before it. When a millisecond's counter is used up, or the clock goes back, it
// runs ahead of the clock rather than wait.
func (g *Generator) Next() int64 {
	ms := g.now().UnixMilli() - epochMS
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if ms > g.lastMS {
		g.lastMS, g.counter = ms, 0
	} else if g.counter++; g.counter == 1<<counterBits {
		g.lastMS, g.counter = g.lastMS+1, 0
	}
	return g.lastMS<<(machineBits+counterBits) | g.machine<<counterBits | g.counter
}

// New adds the role's route.
func New(_ context.Context, s *service.Service) error {
	generator := NewGenerator(s.Name, time.Now)
	s.Handle("GET "+api.PathUniqueID, func(w http.ResponseWriter, _ *http.Request) error {
		return service.WriteJSON(w, api.Identifier{ID: api.ID(generator.Next())})
	})
	return nil
}
