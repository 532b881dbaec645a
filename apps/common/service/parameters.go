package service

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"
)

// Names of the parameters in the environment. Unset or empty means the default of the library named in
// docs/reference/service-defaults.md.
const (
	GoMaxProcs           = "GOMAXPROCS"
	GoGC                 = "GOGC"
	Workers              = "WORKERS"
	IdleConnections      = "IDLE_CONNECTIONS"
	DatabaseConnections  = "DATABASE_CONNECTIONS"
	MemcachedConnections = "MEMCACHED_CONNECTIONS"
	RedisConnections     = "REDIS_CONNECTIONS"
	FanoutWorkers        = "FANOUT_WORKERS"
	TracingSwitch        = "TRACING"
)

// DefaultWorkers is how many requests an HTTP/2 server of Go's net/http serves at once on a connection
// (http2.Server.MaxConcurrentStreams).
const DefaultWorkers = 250

// DefaultIdleConnections and DefaultMemcachedConnections are the libraries' own constants.
const (
	DefaultIdleConnections      = http.DefaultMaxIdleConnsPerHost
	DefaultMemcachedConnections = memcache.DefaultMaxIdleConns
)

// DefaultFanoutWorkers is asynq's Config.Concurrency when unset: the number of CPUs usable by the process.
func DefaultFanoutWorkers() int { return runtime.NumCPU() }

// ParameterError says which variable of the environment has a value that cannot be used: correct it and start again.
type ParameterError struct {
	Name, Value, Allowed string
}

func (e *ParameterError) Error() string {
	return fmt.Sprintf("%s=%q: allowed is %s", e.Name, e.Value, e.Allowed)
}

// Parameters reads parameters and remembers where the effective values are to be read back.
type Parameters struct {
	lookup    func(string) (string, bool)
	mutex     sync.Mutex
	effective map[string]func() int64
	words     map[string]string
}

// NewParameters reads from lookup, which is os.LookupEnv outside tests.
func NewParameters(lookup func(string) (string, bool)) *Parameters {
	return &Parameters{lookup: lookup, effective: map[string]func() int64{}, words: map[string]string{}}
}

// Integer is the value of a parameter, at least 1, or its default when it is unset; it is shown as effective
// unless Watch names where the running value is to be read.
func (p *Parameters) Integer(name string, byDefault int) (int, error) {
	return p.IntegerFrom(1, name, byDefault)
}

// IntegerFrom is Integer for a parameter whose least value is another one than 1.
func (p *Parameters) IntegerFrom(least int, name string, byDefault int) (int, error) {
	value := byDefault
	if text, found := p.lookup(name); found && text != "" {
		var err error
		if value, err = strconv.Atoi(text); err != nil || value < least {
			return 0, &ParameterError{name, text, fmt.Sprintf("an integer of at least %d", least)}
		}
	}
	p.Watch(name, func() int64 { return int64(value) })
	return value, nil
}

// Word is the value of a parameter that is one of some words; it is shown as effective.
func (p *Parameters) Word(name, byDefault string, allowed ...string) (string, error) {
	value, _ := p.lookup(name)
	if value == "" {
		value = byDefault
	}
	if !slices.Contains(allowed, value) {
		return "", &ParameterError{name, value, "one of " + strings.Join(allowed, ", ")}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.words[name] = value
	return value, nil
}

// Text is the value of a variable that is no parameter, such as an address.
func (p *Parameters) Text(name, byDefault string) string {
	if text, _ := p.lookup(name); text != "" {
		return text
	}
	return byDefault
}

// given is the value of a parameter of which only the library knows the default.
func (p *Parameters) given(name string) (value int, isSet bool, err error) {
	text, found := p.lookup(name)
	if !found || text == "" {
		return 0, false, nil
	}
	value, err = strconv.Atoi(text)
	if err != nil || value < 1 {
		return 0, false, &ParameterError{name, text, "an integer of at least 1"}
	}
	return value, true, nil
}

func (p *Parameters) tracing() (bool, error) {
	switch text, _ := p.lookup(TracingSwitch); text {
	case "", "on":
		return true, nil
	case "off":
		return false, nil
	default:
		return false, &ParameterError{TracingSwitch, text, "on or off"}
	}
}

// Watch names where the effective value of a parameter is read.
func (p *Parameters) Watch(name string, read func() int64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.effective[name] = read
}

// Effective is every parameter of the role that is a number, with the value in use now.
func (p *Parameters) Effective() map[string]int64 {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	values := make(map[string]int64, len(p.effective))
	for name, read := range p.effective {
		values[name] = read()
	}
	return values
}

func (p *Parameters) watchRuntime() {
	p.Watch(GoMaxProcs, func() int64 { return int64(runtime.GOMAXPROCS(0)) })
	p.Watch(GoGC, func() int64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	})
}

func (p *Parameters) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	shown := map[string]any{}
	for name, value := range p.Effective() {
		shown[name] = value
	}
	p.mutex.Lock()
	for name, word := range p.words {
		shown[name] = word
	}
	p.mutex.Unlock()
	// The values are integers and words, and the writer's failure is the reader's loss: there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(shown)
}
