package loadgen

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
)

// compiler compiles requests, with the names and files that they may use.
type compiler struct {
	variables map[string]variable // taken values too
	headers   map[string]string   // of every request; a step gets those whose values it has by then
	files     map[string][]byte
	users     bool
	http2     bool
	announced bool // all values that requests take are known
}

func newCompiler(raw *document, files map[string][]byte) (*compiler, error) {
	variables, err := compileVariables(raw.Variables)
	if err != nil {
		return nil, err
	}
	for name, each := range variables {
		if _, users := each.(byUser); users && raw.Users == nil {
			return nil, fmt.Errorf("variables.%s.by_user: there are no `users`", name)
		}
	}
	if raw.Users != nil {
		if variables["user_number"] != nil {
			return nil, fmt.Errorf("variables.user_number: {user_number} is the number of the user")
		}
		variables["user_number"] = userNumber{}
	}
	if err := checkHeaders(raw.Headers); err != nil {
		return nil, err
	}
	return &compiler{
		variables: variables, headers: raw.Headers, files: files, users: raw.Users != nil,
		http2: raw.Protocol == protocolH2 || raw.Protocol == protocolH2C,
	}, nil
}

// announce makes the values that a request takes known to those that follow.
func (c *compiler) announce(takes []take) error {
	for _, each := range takes {
		known := c.variables[each.name]
		if _, again := known.(taken); known != nil && !again || slices.Contains(reservedNames, each.name) {
			return fmt.Errorf("take.%s: that is the name of a variable", each.name)
		}
		c.variables[each.name] = taken(each.name)
	}
	return nil
}

// login compiles the users and, in their order, the steps of their log-in.
func (c *compiler) login(raw *usersDocument) (*Users, error) {
	if raw == nil {
		return nil, nil
	}
	users, err := compileUsers(raw)
	if err != nil {
		return nil, fmt.Errorf("users.%w", err)
	}
	for index := range raw.Login {
		request := raw.Login[index]
		if request.Weight != 0 {
			return nil, fmt.Errorf("users.login[%d].weight: a step has none", index)
		}
		request.Weight = 1
		if request.Follow == nil && request.GRPC == nil {
			follow := true
			request.Follow = &follow
		}
		step, err := c.class(&request)
		if err == nil {
			err = c.announce(step.take)
		}
		if err != nil {
			return nil, fmt.Errorf("users.login[%d]: %w", index, err)
		}
		step.step = true
		users.login = append(users.login, step)
	}
	return users, nil
}

// mix compiles the requests, each of which may use what any of them takes.
func (c *compiler) mix(raw *document, workload *Workload) error {
	for index := range raw.Requests {
		takes, err := compileTakes(raw.Requests[index].Take)
		if err == nil {
			err = c.announce(takes)
		}
		if err != nil {
			return fmt.Errorf("requests[%d]: %w", index, err)
		}
	}
	c.announced = true
	if _, err := compileFields("headers", raw.Headers, c.variables); err != nil {
		return err
	}
	names := map[string]bool{}
	for index := range raw.Requests {
		class, err := c.class(&raw.Requests[index])
		if err != nil {
			return fmt.Errorf("requests[%d]: %w", index, err)
		}
		if names[class.Name] {
			return fmt.Errorf("requests[%d].name: %q appears twice", index, class.Name)
		}
		names[class.Name] = true
		workload.Classes = append(workload.Classes, class)
		workload.total += class.weight
	}
	return nil
}

// http2Settings settles what concerns connections of HTTP/2 only.
func (c *compiler) http2Settings(raw *document, workload *Workload) error {
	calls := len(workload.calls()) > 0
	if raw.Connections != nil && !calls && !c.http2 {
		return fmt.Errorf("connections: belongs to protocol h2 or h2c, or to requests with grpc")
	}
	if c.http2 || calls {
		workload.connections = defaultStreams
	}
	if raw.Connections != nil {
		workload.connections = *raw.Connections
		if *raw.Connections < 1 || *raw.Connections > maxStreams {
			return fmt.Errorf("connections: found %d; allowed: 1 to %d", *raw.Connections, maxStreams)
		}
	}
	if raw.Descriptors == "" {
		return nil
	}
	if !calls {
		return fmt.Errorf("descriptors: belongs to requests with grpc")
	}
	data, err := c.file(raw.Descriptors)
	if err == nil {
		workload.descriptors, err = readDescriptors(data)
	}
	if err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	return nil
}

func (c *compiler) file(name string) ([]byte, error) {
	data, there := c.files[name]
	if !there {
		return nil, fmt.Errorf("found %q; allowed: the plan's files: %s", name, strings.Join(slices.Sorted(maps.Keys(c.files)), ", "))
	}
	return data, nil
}

func (c *compiler) class(raw *requestDocument) (*Class, error) {
	if raw.Name == "" {
		return nil, fmt.Errorf("name: missing")
	}
	if !(raw.Weight > 0) || math.IsInf(raw.Weight, 0) {
		return nil, fmt.Errorf("weight: found %v; allowed: a number above 0", raw.Weight)
	}
	class := &Class{Name: raw.Name, weight: raw.Weight, Method: raw.Method, follow: raw.Follow != nil && *raw.Follow}
	if err := c.content(raw, class); err != nil {
		return nil, err
	}
	var err error
	if class.headers, err = c.lines(raw, class.grpc != nil); err != nil {
		return nil, err
	}
	if class.take, err = compileTakes(raw.Take); err != nil {
		return nil, err
	}
	if len(class.take) > 0 && !c.users {
		return nil, fmt.Errorf("take: values belong to `users`, and there are none")
	}
	if class.grpc != nil {
		class.Expect, err = class.grpc.expect(raw.Expect)
	} else {
		class.Expect, err = compileExpect(raw.Expect)
	}
	class.late = class.needsReplies()
	class.plain = !c.users && !c.http2 && !class.follow && class.grpc == nil && class.content == nil
	return class, err
}

// content compiles what is asked: a call, or a method, a path and a body.
func (c *compiler) content(raw *requestDocument, class *Class) error {
	if raw.GRPC != nil {
		return c.call(raw, class)
	}
	if class.Method == "" {
		class.Method = http.MethodGet
	}
	if !slices.Contains(methods, class.Method) {
		return fmt.Errorf("method: found %q; allowed: %s", raw.Method, strings.Join(methods, ", "))
	}
	if !strings.HasPrefix(raw.Path, "/") || strings.ContainsAny(raw.Path, "?#") {
		return fmt.Errorf("path: found %q; allowed: starts with /, no ? or #", raw.Path)
	}
	bodies := 0
	for _, given := range []bool{raw.Form != nil, raw.Body != nil, raw.BodyFile != ""} {
		if given {
			bodies++
		}
	}
	if bodies > 1 {
		return fmt.Errorf("form, body and body_file: only one of them")
	}
	var err error
	if class.path, err = compileTemplate(raw.Path, c.variables); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	if class.query, err = compileFields("query", raw.Query, c.variables); err != nil {
		return err
	}
	if class.form, err = compileFields("form", raw.Form, c.variables); err != nil {
		return err
	}
	if raw.Body != nil {
		body, err := compileTemplate(*raw.Body, c.variables)
		if err != nil {
			return fmt.Errorf("body: %w", err)
		}
		class.body = &body
	}
	if raw.BodyFile != "" {
		if class.content, err = c.file(raw.BodyFile); err != nil {
			return fmt.Errorf("body_file: %w", err)
		}
	}
	return nil
}

// call compiles a request of gRPC: a POST whose path is the method's name.
func (c *compiler) call(raw *requestDocument, class *Class) error {
	if raw.Method != "" || raw.Path != "" || raw.Query != nil || raw.Form != nil || raw.Body != nil || raw.BodyFile != "" ||
		raw.Headers != nil || raw.Follow != nil {
		return fmt.Errorf("grpc: no method, path, query, form, body, body_file, headers or follow with it; headers are grpc.metadata")
	}
	var err error
	if class.grpc, err = compileCall(raw.GRPC, c.variables); err != nil {
		return fmt.Errorf("grpc.%w", err)
	}
	class.Method = http.MethodPost
	class.path = template{parts: []part{{literal: "/" + raw.GRPC.Method}}}
	return nil
}

// lines compiles a request's headers: its own, and those of every request that it does not set itself.
func (c *compiler) lines(raw *requestDocument, call bool) ([]field, error) {
	key, own := "headers", raw.Headers
	if call {
		key, own = "grpc.metadata", raw.GRPC.Metadata
	}
	merged := maps.Clone(own)
	for name, value := range c.headers {
		same := func(other string) bool { return strings.EqualFold(name, other) }
		if _, err := compileTemplate(value, c.variables); err != nil && !c.announced {
			continue
		}
		if raw.Form != nil && strings.EqualFold(name, "Content-Type") {
			continue // a form's own
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(own)), same) {
			if merged == nil {
				merged = map[string]string{}
			}
			merged[name] = value
		}
	}
	if err := checkHeaders(merged); err != nil {
		return nil, err
	}
	fields, err := compileFields(key, merged, c.variables)
	if err != nil {
		return nil, err
	}
	for _, header := range fields {
		if header.value.breaksLines() {
			return nil, fmt.Errorf("%s.%s: a variable in it may hold a line break", key, header.name)
		}
		if c.users && strings.EqualFold(header.name, "Cookie") {
			return nil, fmt.Errorf("%s.%s: the users keep their own cookies", key, header.name)
		}
	}
	if call {
		for _, header := range grpcHeaders {
			fields = append(fields, field{header.Name, template{parts: []part{{literal: header.Value}}}})
		}
	}
	return fields, nil
}

// needsReplies says whether a request can be completed only when it is sent.
func (class *Class) needsReplies() bool {
	for _, fields := range [][]field{class.query, class.form, class.headers} {
		if slices.ContainsFunc(fields, func(f field) bool { return f.value.needsReplies() }) {
			return true
		}
	}
	return class.path.needsReplies() || class.body != nil && class.body.needsReplies() ||
		class.grpc != nil && class.grpc.needsReplies()
}
