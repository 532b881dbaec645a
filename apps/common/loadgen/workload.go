package loadgen

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The workload document as it comes, before its templates are compiled.
type document struct {
	Kind        string                     `json:"kind"`
	Version     int                        `json:"version"`
	TimeoutMS   float64                    `json:"timeout_ms"`
	Protocol    string                     `json:"protocol"`
	Connections *int                       `json:"connections"` // of HTTP/2
	Descriptors string                     `json:"descriptors"` // a file of the plan
	Headers     map[string]string          `json:"headers"`     // of every request
	Users       *usersDocument             `json:"users"`
	Variables   map[string]json.RawMessage `json:"variables"`
	Requests    []requestDocument          `json:"requests"`
}

type requestDocument struct {
	Name     string                  `json:"name"`
	Weight   float64                 `json:"weight"`
	Method   string                  `json:"method"`
	Path     string                  `json:"path"`
	Query    map[string]string       `json:"query"`
	Form     map[string]string       `json:"form"`
	Body     *string                 `json:"body"`
	BodyFile string                  `json:"body_file"` // a file of the plan
	Headers  map[string]string       `json:"headers"`
	GRPC     *grpcDocument           `json:"grpc"`
	Expect   *expectDocument         `json:"expect"`
	Take     map[string]takeDocument `json:"take"`
	Follow   *bool                   `json:"follow"`
}

type expectDocument struct {
	Status   *int    `json:"status"`
	Body     *string `json:"body"`
	MinItems *int    `json:"min_items"`
	Code     *string `json:"code"` // of gRPC
}

// Workload is the request mix, checked and compiled.
type Workload struct {
	Timeout     time.Duration // from the due time to the end of the reply
	Classes     []*Class
	total       float64 // sum of the weights
	protocol    string
	connections int // of HTTP/2; 0 where nothing needs them
	descriptors descriptors
	users       *Users // nil: none
}

// Class is one kind of request of the mix, or a step of the log-in.
type Class struct {
	Name    string
	weight  float64
	Method  string
	path    template
	query   []field
	form    []field
	body    *template
	content []byte // of a file, instead of a body
	headers []field
	grpc    *grpcCall
	Expect  Expect
	take    []take
	follow  bool // redirects
	late    bool // it needs what replies deliver
	plain   bool // over HTTP/1.1, and its bytes are known with the schedule
	step    bool // of the log-in, whose failures show the reply
}

// Expect is what a good reply looks like: Status 0 stands for any 2xx, a nil Body for any body, and MinItems, if it
// is not negative, for a JSON array of at least so many elements.
type Expect struct {
	Status   int
	Body     *regexp.Regexp
	MinItems int
}

// needsBody says whether a reply's body must be kept.
func (class *Class) needsBody() bool {
	return class.step || class.Expect.needsBody() || slices.ContainsFunc(class.take, func(t take) bool { return t.needsBody() })
}

type field struct {
	name  string
	value template
}

// maxClasses is what the result's one-byte class column can tell apart.
const maxClasses = 256

// ReadWorkload checks and compiles a workload document.  Nothing in it is ignored: an unknown key, variable or
// method is an error that says where it stands and what is allowed.  files: those that the document names.
func ReadWorkload(data []byte, files map[string][]byte) (*Workload, error) {
	var raw document
	if err := decodeStrictly(data, &raw); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	workload, err := compile(&raw, files)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	return workload, nil
}

func compile(raw *document, files map[string][]byte) (*Workload, error) {
	if raw.Kind != "workload" || raw.Version != 1 {
		return nil, fmt.Errorf("kind and version: found %q, %d; allowed: workload, 1", raw.Kind, raw.Version)
	}
	if !(raw.TimeoutMS > 0) || raw.TimeoutMS > 600_000 {
		return nil, fmt.Errorf("timeout_ms: found %v; allowed: above 0, at most 600000", raw.TimeoutMS)
	}
	if len(raw.Requests) == 0 || len(raw.Requests) > maxClasses {
		return nil, fmt.Errorf("requests: found %d; allowed: 1 to %d", len(raw.Requests), maxClasses)
	}
	workload := &Workload{Timeout: seconds(raw.TimeoutMS / 1000), protocol: raw.Protocol}
	if workload.protocol == "" {
		workload.protocol = protocolHTTP1
	}
	if !slices.Contains(protocols, workload.protocol) {
		return nil, fmt.Errorf("protocol: found %q; allowed: %s", raw.Protocol, strings.Join(protocols, ", "))
	}
	compiler, err := newCompiler(raw, files)
	if err != nil {
		return nil, err
	}
	if workload.users, err = compiler.login(raw.Users); err != nil {
		return nil, err
	}
	if err := compiler.mix(raw, workload); err != nil {
		return nil, err
	}
	return workload, compiler.http2Settings(raw, workload)
}

const (
	protocolHTTP1 = "http/1.1"
	protocolH2    = "h2"  // over TLS, by ALPN
	protocolH2C   = "h2c" // without encryption, known beforehand
)

var protocols = []string{protocolHTTP1, protocolH2, protocolH2C}

func (workload *Workload) http2() bool { return workload.protocol != protocolHTTP1 }

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// compileFields orders the fields by name: a request's random draws must not depend on a map's order.
func compileFields(key string, raw map[string]string, variables map[string]variable) ([]field, error) {
	var fields []field
	for name, text := range raw {
		value, err := compileTemplate(text, variables)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", key, name, err)
		}
		fields = append(fields, field{name, value})
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return fields, nil
}

// ownHeaders are the generator's to set.
var ownHeaders = []string{"Traceparent", "Tracestate", "Content-Length", "Transfer-Encoding", "Connection"}

var headerName = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]+$`)

func checkHeaders(headers map[string]string) error {
	for name, value := range headers {
		if !headerName.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
			return fmt.Errorf("headers.%s: not a valid HTTP header", name)
		}
		if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
			return fmt.Errorf("headers.%s: the generator sets it itself", name)
		}
	}
	return nil
}

func compileExpect(raw *expectDocument) (Expect, error) {
	expect := Expect{MinItems: -1}
	if raw == nil {
		return expect, nil
	}
	if raw.Status != nil {
		if *raw.Status < 200 || *raw.Status > 599 {
			return expect, fmt.Errorf("expect.status: found %d; allowed: 200 to 599", *raw.Status)
		}
		expect.Status = *raw.Status
	}
	if raw.Body != nil {
		pattern, err := regexp.Compile(*raw.Body)
		if err != nil {
			return expect, fmt.Errorf("expect.body: %w", err)
		}
		expect.Body = pattern
	}
	if raw.Code != nil {
		return expect, fmt.Errorf("expect.code: belongs to a request with grpc")
	}
	if raw.MinItems != nil {
		if *raw.MinItems < 0 {
			return expect, fmt.Errorf("expect.min_items: found %d; allowed: 0 or more", *raw.MinItems)
		}
		expect.MinItems = *raw.MinItems
	}
	return expect, nil
}

// needsBody says whether a reply's body must be kept to judge it.
func (expect *Expect) needsBody() bool { return expect.Body != nil || expect.MinItems >= 0 }

// draw picks a class with a probability proportional to its weight.
func (workload *Workload) draw(random *rand.Rand) int {
	left := random.Float64() * workload.total
	for index, class := range workload.Classes {
		left -= class.weight
		if left < 0 {
			return index
		}
	}
	return len(workload.Classes) - 1 // rounding of the sum
}
