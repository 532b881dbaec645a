package loadgen

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// taken is a value that a reply delivers, so that it is not known when the schedule is made.
type taken string

func (taken) draw(*scope) string { panic("a value of a reply is filled in when the request is sent") }
func (taken) numeric() bool      { return false }

// piece is a text, or the place of a taken value.
type piece struct {
	text  string
	taken string
}

// pieces is a template of which everything is drawn but what replies deliver.
type pieces []piece

func (t *template) pieces(scope *scope) pieces {
	var result pieces
	var text strings.Builder
	for index := range t.parts {
		p := &t.parts[index]
		if name, later := p.from.(taken); later {
			result = append(result, piece{text: text.String()}, piece{taken: string(name)})
			text.Reset()
			continue
		}
		text.WriteString(p.text(scope))
	}
	return append(result, piece{text: text.String()})
}

// needsReplies says whether a text of this template needs what a reply delivers.
func (t *template) needsReplies() bool {
	return slices.ContainsFunc(t.parts, func(p part) bool {
		_, later := p.from.(taken)
		return later
	})
}

// values looks a user's values up and notes the first one that there is not.
type values struct {
	user    *user
	missing string
}

func (v *values) fill(parts pieces) string {
	var out strings.Builder
	for _, part := range parts {
		if part.taken == "" {
			out.WriteString(part.text)
			continue
		}
		value, known := v.user.value(part.taken)
		if !known && v.missing == "" {
			v.missing = part.taken
		}
		out.WriteString(value)
	}
	return out.String()
}

// draft is a request of the schedule that is completed when it is sent.
type draft struct {
	prefix      string // of the path
	path        pieces
	query, form []draftField // form nil: none
	body        pieces
	message     []draftPart
	headers     []draftField
}

type draftField struct {
	name  string
	value pieces
}

// draftPart of a gRPC message: JSON text, or pieces that become a JSON string.
type draftPart struct {
	json  string
	value pieces
}

func (class *Class) draft(prefix string, scope *scope) *draft {
	result := &draft{prefix: prefix, path: class.path.pieces(scope), query: draftFields(class.query, scope)}
	switch {
	case class.grpc != nil:
		for _, part := range class.grpc.message {
			drafted := draftPart{json: part.json}
			if part.value != nil {
				drafted.value = part.value.pieces(scope)
			}
			result.message = append(result.message, drafted)
		}
	case class.form != nil:
		result.form = draftFields(class.form, scope)
	case class.body != nil:
		result.body = class.body.pieces(scope)
	}
	result.headers = draftFields(class.headers, scope)
	return result
}

func draftFields(fields []field, scope *scope) []draftField {
	result := make([]draftField, 0, len(fields))
	for index := range fields {
		result = append(result, draftField{fields[index].name, fields[index].value.pieces(scope)})
	}
	return result
}

// complete fills a user's values in; the second result names one that the user does not have, or is "".
func (d *draft) complete(user *user) (Request, string) {
	values := &values{user: user}
	request := Request{Path: d.prefix + (&url.URL{Path: values.fill(d.path)}).EscapedPath()}
	if len(d.query) > 0 {
		request.Path += "?" + values.encode(d.query)
	}
	switch {
	case d.message != nil:
		request.Body = values.message(d.message)
	case d.form != nil:
		request.Body = values.encode(d.form)
		request.Headers = append(request.Headers, formType)
	default:
		request.Body = values.fill(d.body)
	}
	for _, header := range d.headers {
		request.Headers = append(request.Headers, Header{http.CanonicalHeaderKey(header.name), values.fill(header.value)})
	}
	return request, values.missing
}

func (v *values) encode(fields []draftField) string {
	pairs := make([]string, 0, len(fields))
	for _, field := range fields {
		pairs = append(pairs, url.QueryEscape(field.name)+"="+url.QueryEscape(v.fill(field.value)))
	}
	return strings.Join(pairs, "&")
}

func (v *values) message(parts []draftPart) string {
	var out strings.Builder
	for _, part := range parts {
		if part.value == nil {
			out.WriteString(part.json)
		} else {
			out.WriteString(quoted(v.fill(part.value)))
		}
	}
	return out.String()
}

// quoted is a text as a JSON string.
func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // every text has a JSON form
	}
	return string(data)
}
