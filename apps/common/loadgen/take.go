package loadgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// takeDocument says where in a reply a value stands: exactly one of the four.
type takeDocument struct {
	JSON   *string `json:"json"`
	Regex  *string `json:"regex"`
	Header *string `json:"header"`
	Cookie *string `json:"cookie"`
}

// take is a value that a reply delivers to its user.
type take struct {
	name    string
	path    []jsonStep // of the body as JSON
	pattern *regexp.Regexp
	header  string
	cookie  string
}

// jsonStep is a member of an object or an element of an array, negative ones from the end.
type jsonStep struct {
	member  string
	element int
	array   bool
}

var (
	jsonPath     = regexp.MustCompile(`^\$(?:\.[A-Za-z_][A-Za-z0-9_-]*|\['[^']+'\]|\[-?[0-9]{1,9}\])*$`)
	jsonPathStep = regexp.MustCompile(`\.([A-Za-z_][A-Za-z0-9_-]*)|\['([^']+)'\]|\[(-?[0-9]{1,9})\]`)
)

func compileTakes(raw map[string]takeDocument) ([]take, error) {
	var takes []take
	for name, place := range raw {
		compiled, err := compileTake(name, &place)
		if err != nil {
			return nil, fmt.Errorf("take.%s: %w", name, err)
		}
		takes = append(takes, compiled)
	}
	slices.SortFunc(takes, func(a, b take) int { return strings.Compare(a.name, b.name) })
	return takes, nil
}

func compileTake(name string, raw *takeDocument) (take, error) {
	result := take{name: name}
	if !variableName.MatchString(name) {
		return result, fmt.Errorf("allowed names: small letters, digits, _")
	}
	given := 0
	if raw.JSON != nil {
		given++
		if !jsonPath.MatchString(*raw.JSON) {
			return result, fmt.Errorf("json: found %q; allowed: $, then .name, ['name'] and [number]", *raw.JSON)
		}
		result.path = []jsonStep{}
		for _, match := range jsonPathStep.FindAllStringSubmatch(*raw.JSON, -1) {
			step := jsonStep{member: match[1] + match[2], array: match[3] != ""}
			step.element, _ = strconv.Atoi(match[3]) // the pattern lets only numbers through
			result.path = append(result.path, step)
		}
	}
	if raw.Regex != nil {
		given++
		pattern, err := regexp.Compile(*raw.Regex)
		if err != nil {
			return result, fmt.Errorf("regex: %w", err)
		}
		if pattern.NumSubexp() != 1 {
			return result, fmt.Errorf("regex: found %d groups; allowed: one", pattern.NumSubexp())
		}
		result.pattern = pattern
	}
	for key, text := range map[string]*string{"header": raw.Header, "cookie": raw.Cookie} {
		if text == nil {
			continue
		}
		given++
		if !headerName.MatchString(*text) {
			return result, fmt.Errorf("%s: found %q; allowed: a name", key, *text)
		}
		if key == "header" {
			result.header = http.CanonicalHeaderKey(*text)
		} else {
			result.cookie = *text
		}
	}
	if given != 1 {
		return result, fmt.Errorf("allowed: exactly one of json, regex, header, cookie")
	}
	return result, nil
}

func (t *take) needsBody() bool { return t.path != nil || t.pattern != nil }

// from reads the value out of a reply; false where it is not there.
func (t *take) from(got *reply) (string, bool) {
	switch {
	case t.path != nil:
		return readJSON(got.body, t.path)
	case t.pattern != nil:
		match := t.pattern.FindSubmatch(got.body)
		if match == nil {
			return "", false
		}
		return string(match[1]), true
	case t.header != "":
		listed := got.header[t.header]
		if len(listed) == 0 {
			return "", false
		}
		return listed[0], true
	}
	for _, cookie := range (&http.Response{Header: got.header}).Cookies() {
		if cookie.Name == t.cookie {
			return cookie.Value, true
		}
	}
	return "", false
}

// readJSON follows a path; a text stands for itself, anything else but null for its JSON.
func readJSON(body []byte, path []jsonStep) (string, bool) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // a number keeps its digits
	var at any
	if decoder.Decode(&at) != nil {
		return "", false
	}
	for _, step := range path {
		var there bool
		if at, there = step.in(at); !there {
			return "", false
		}
	}
	if text, plain := at.(string); plain {
		return text, true
	}
	text, err := json.Marshal(at)
	return string(text), err == nil && at != nil
}

func (step *jsonStep) in(value any) (any, bool) {
	if !step.array {
		members, _ := value.(map[string]any)
		member, there := members[step.member]
		return member, there
	}
	elements, _ := value.([]any)
	index := step.element
	if index < 0 {
		index += len(elements)
	}
	if index < 0 || index >= len(elements) {
		return nil, false
	}
	return elements[index], true
}
