package loadgen

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The workload document as it comes, before its templates are compiled.
type document struct {
	Kind      string                     `json:"kind"`
	Version   int                        `json:"version"`
	TimeoutMS float64                    `json:"timeout_ms"`
	Variables map[string]json.RawMessage `json:"variables"`
	Requests  []requestDocument          `json:"requests"`
}

type requestDocument struct {
	Name    string            `json:"name"`
	Weight  float64           `json:"weight"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Query   map[string]string `json:"query"`
	Form    map[string]string `json:"form"`
	Body    *string           `json:"body"`
	Headers map[string]string `json:"headers"`
	Expect  *expectDocument   `json:"expect"`
}

type expectDocument struct {
	Status   *int    `json:"status"`
	Body     *string `json:"body"`
	MinItems *int    `json:"min_items"`
}

// Workload is the request mix, checked and compiled.
type Workload struct {
	Timeout time.Duration // from the due time to the end of the reply
	Classes []*Class
	total   float64 // sum of the weights
}

// Class is one kind of request of the mix.
type Class struct {
	Name    string
	weight  float64
	Method  string
	path    template
	query   []field
	form    []field
	body    *template
	headers []field
	Expect  Expect
}

// Expect is what a good reply looks like: Status 0 stands for any 2xx, a nil Body for any body, and MinItems, if it
// is not negative, for a JSON array of at least so many elements.
type Expect struct {
	Status   int
	Body     *regexp.Regexp
	MinItems int
}

type field struct {
	name  string
	value template
}

// maxClasses is what the result's one-byte class column can tell apart.
const maxClasses = 256

// ReadWorkload checks and compiles a workload document.  Nothing in it is ignored: an unknown key, variable or
// method is an error that says where it stands and what is allowed.
func ReadWorkload(data []byte) (*Workload, error) {
	var raw document
	if err := decodeStrictly(data, &raw); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	workload, err := compile(&raw)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	return workload, nil
}

func compile(raw *document) (*Workload, error) {
	if raw.Kind != "workload" || raw.Version != 1 {
		return nil, fmt.Errorf("kind and version: found %q, %d; allowed: workload, 1", raw.Kind, raw.Version)
	}
	if !(raw.TimeoutMS > 0) || raw.TimeoutMS > 600_000 {
		return nil, fmt.Errorf("timeout_ms: found %v; allowed: above 0, at most 600000", raw.TimeoutMS)
	}
	if len(raw.Requests) == 0 || len(raw.Requests) > maxClasses {
		return nil, fmt.Errorf("requests: found %d; allowed: 1 to %d", len(raw.Requests), maxClasses)
	}
	variables, err := compileVariables(raw.Variables)
	if err != nil {
		return nil, err
	}
	workload := &Workload{Timeout: seconds(raw.TimeoutMS / 1000)}
	names := map[string]bool{}
	for index := range raw.Requests {
		class, err := compileClass(&raw.Requests[index], variables)
		if err != nil {
			return nil, fmt.Errorf("requests[%d]: %w", index, err)
		}
		if names[class.Name] {
			return nil, fmt.Errorf("requests[%d].name: %q appears twice", index, class.Name)
		}
		names[class.Name] = true
		workload.Classes = append(workload.Classes, class)
		workload.total += class.weight
	}
	return workload, nil
}

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func compileClass(raw *requestDocument, variables map[string]variable) (*Class, error) {
	if raw.Name == "" {
		return nil, fmt.Errorf("name: missing")
	}
	if !(raw.Weight > 0) || math.IsInf(raw.Weight, 0) {
		return nil, fmt.Errorf("weight: found %v; allowed: a number above 0", raw.Weight)
	}
	class := &Class{Name: raw.Name, weight: raw.Weight, Method: raw.Method}
	if class.Method == "" {
		class.Method = http.MethodGet
	}
	if !slices.Contains(methods, class.Method) {
		return nil, fmt.Errorf("method: found %q; allowed: %s", raw.Method, strings.Join(methods, ", "))
	}
	if !strings.HasPrefix(raw.Path, "/") || strings.ContainsAny(raw.Path, "?#") {
		return nil, fmt.Errorf("path: found %q; allowed: starts with /, no ? or #", raw.Path)
	}
	if raw.Form != nil && raw.Body != nil {
		return nil, fmt.Errorf("form and body: only one of them")
	}
	var err error
	if class.path, err = compileTemplate(raw.Path, variables); err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	if class.query, err = compileFields("query", raw.Query, variables); err != nil {
		return nil, err
	}
	if class.form, err = compileFields("form", raw.Form, variables); err != nil {
		return nil, err
	}
	if class.headers, err = compileFields("headers", raw.Headers, variables); err != nil {
		return nil, err
	}
	if err := checkHeaders(raw.Headers); err != nil {
		return nil, err
	}
	for _, header := range class.headers {
		if header.value.breaksLines() {
			return nil, fmt.Errorf("headers.%s: a variable in it may hold a line break", header.name)
		}
	}
	if raw.Body != nil {
		body, err := compileTemplate(*raw.Body, variables)
		if err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		class.body = &body
	}
	class.Expect, err = compileExpect(raw.Expect)
	return class, err
}

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
