package loadgen

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// template is a text with placeholders: {name}, {name+N} and {name-N} for a numeric variable, {word:N} for N random
// letters and digits, {seq} for the request's number in the schedule (from 0), {user_number} for the simulated user's
// (from 0).  {{ and }} stand for braces.
type template struct{ parts []part }

type part struct {
	literal string
	name    string   // of the variable; "" when the part is a literal, a word or the sequence number
	from    variable // nil for a literal
	add     int64
	added   bool
}

type word struct{ characters int }

func (w word) draw(scope *scope) string {
	var out strings.Builder
	writeLetters(&out, scope.random, w.characters)
	return out.String()
}
func (w word) numeric() bool { return false }

type sequence struct{}

func (sequence) draw(scope *scope) string { return strconv.Itoa(scope.sequence) }
func (sequence) numeric() bool            { return true }

var (
	placeholder = regexp.MustCompile(`\{\{|\}\}|\{[^{}]*\}|[{}]`)
	reference   = regexp.MustCompile(`^([a-z][a-z0-9_]*)(?:([+-])([0-9]{1,15})|:([0-9]{1,7}))?$`)
)

func compileTemplate(source string, variables map[string]variable) (template, error) {
	var result template
	literal, end := strings.Builder{}, 0
	for _, at := range placeholder.FindAllStringIndex(source, -1) {
		literal.WriteString(source[end:at[0]])
		end = at[1]
		switch token := source[at[0]:at[1]]; token {
		case "{{", "}}":
			literal.WriteByte(token[0])
		case "{", "}":
			return result, fmt.Errorf("%q: a single %s; write %s%s for a brace", source, token, token, token)
		default:
			found, err := compilePlaceholder(token, variables)
			if err != nil {
				return result, fmt.Errorf("%q: %w", source, err)
			}
			result.parts = append(result.parts, part{literal: literal.String()}, found)
			literal.Reset()
		}
	}
	literal.WriteString(source[end:])
	result.parts = append(result.parts, part{literal: literal.String()})
	return result, nil
}

func compilePlaceholder(token string, variables map[string]variable) (part, error) {
	match := reference.FindStringSubmatch(token[1 : len(token)-1])
	if match == nil {
		return part{}, fmt.Errorf("%s: allowed: {name}, {name+N}, {name-N}, {word:N}, {seq}", token)
	}
	name, sign, digits, length := match[1], match[2], match[3], match[4]
	if (name == "word") != (length != "") {
		return part{}, fmt.Errorf("%s: a length belongs to {word:N} and only to it", token)
	}
	if name == "word" {
		count, err := strconv.Atoi(length)
		if err != nil || count > maxCharacters {
			return part{}, fmt.Errorf("%s: at most %d characters", token, maxCharacters)
		}
		return part{from: word{count}}, nil
	}
	result := part{name: name, from: variables[name]}
	if name == "seq" {
		result = part{from: sequence{}}
	}
	if result.from == nil {
		known := append(slices.Collect(maps.Keys(variables)), "seq", "word:N")
		slices.Sort(known)
		return part{}, fmt.Errorf("%s: unknown variable; known: %s", token, strings.Join(known, ", "))
	}
	if sign != "" {
		if !result.from.numeric() {
			return part{}, fmt.Errorf("%s: %s is not a number", token, name)
		}
		add, err := strconv.ParseInt(sign+digits, 10, 64)
		if err != nil {
			return part{}, fmt.Errorf("%s: %w", token, err)
		}
		result.add, result.added = add, true
	}
	return result, nil
}

func (t *template) render(out *strings.Builder, scope *scope) {
	for index := range t.parts {
		out.WriteString(t.parts[index].text(scope))
	}
}

func (p *part) text(scope *scope) string {
	if p.from == nil {
		return p.literal
	}
	var value string
	if p.name == "" {
		value = p.from.draw(scope)
	} else {
		value = scope.value(p.name, p.from)
	}
	if p.added {
		number, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			panic("a numeric variable drew " + value) // compilePlaceholder lets only numbers through
		}
		value = strconv.FormatInt(number+p.add, 10)
	}
	return value
}

func (t *template) text(scope *scope) string {
	var out strings.Builder
	t.render(&out, scope)
	return out.String()
}

// lineBreaks must not reach a header: what follows them would be another one.
const lineBreaks = "\r\n\x00"

// breaksLines says whether a text of this template may hold a line break.
func (t *template) breaksLines() bool {
	for index := range t.parts {
		p := &t.parts[index]
		if strings.ContainsAny(p.literal, lineBreaks) {
			return true
		}
		switch from := p.from.(type) {
		case choice:
			if strings.ContainsAny(strings.Join(from.words, ""), lineBreaks) {
				return true
			}
		case byUser:
			if strings.ContainsAny(strings.Join(from.words, ""), lineBreaks) {
				return true
			}
		case *text:
			for each := range from.repeats {
				if from.repeats[each].value.breaksLines() {
					return true
				}
			}
		}
	}
	return false
}
