package loadgen

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// variable is something that a template may name.  draw returns its text, and its number if it is one.
type variable interface {
	draw(scope *scope) string
	numeric() bool
}

// scope is where variables have their values: one per request.  A variable is drawn when it is first named; in a
// fresh scope (inside a repeat) each occurrence is drawn anew.
type scope struct {
	random   *rand.Rand
	sequence int
	user     int
	values   map[string]string
	fresh    bool
}

func (scope *scope) value(name string, from variable) string {
	if scope.fresh {
		return from.draw(scope)
	}
	if text, drawn := scope.values[name]; drawn {
		return text
	}
	text := from.draw(scope)
	scope.values[name] = text
	return text
}

type uniform struct{ low, high int64 }

func (u uniform) draw(scope *scope) string {
	return strconv.FormatInt(u.low+scope.random.Int64N(u.high-u.low+1), 10)
}
func (u uniform) numeric() bool { return true }

// zipf draws low+k-1 with a probability proportional to 1/k^s, through the inverse of the cumulated sum.
type zipf struct {
	low      int64
	cumulate []float64
}

func newZipf(low, high int64, exponent float64) zipf {
	sum, cumulate := 0.0, make([]float64, 0, high-low+1)
	for rank := int64(1); rank <= high-low+1; rank++ {
		sum += math.Pow(float64(rank), -exponent)
		cumulate = append(cumulate, sum)
	}
	return zipf{low, cumulate}
}

func (z zipf) draw(scope *scope) string {
	at := scope.random.Float64() * z.cumulate[len(z.cumulate)-1]
	rank := min(sort.SearchFloat64s(z.cumulate, at), len(z.cumulate)-1)
	return strconv.FormatInt(z.low+int64(rank), 10)
}
func (z zipf) numeric() bool { return true }

type choice struct {
	words   []string
	numbers bool
}

func (c choice) draw(scope *scope) string { return c.words[scope.random.IntN(len(c.words))] }
func (c choice) numeric() bool            { return c.numbers }

// byUser is a list in which each simulated user has its own element; users beyond its end begin again.
type byUser struct{ choice }

func (b byUser) draw(scope *scope) string { return b.words[scope.user%len(b.words)] }

// userNumber is {user_number}.
type userNumber struct{}

func (userNumber) draw(scope *scope) string { return strconv.Itoa(scope.user) }
func (userNumber) numeric() bool            { return true }

// text is random letters followed by repeated templates, in whose values each variable is drawn anew.
type text struct {
	characters int
	repeats    []repeat
}

type repeat struct {
	low, high int64
	value     template
}

func (t *text) draw(outer *scope) string {
	var out strings.Builder
	writeLetters(&out, outer.random, t.characters)
	inner := &scope{random: outer.random, sequence: outer.sequence, user: outer.user, fresh: true}
	for _, part := range t.repeats {
		for range part.low + outer.random.Int64N(part.high-part.low+1) {
			part.value.render(&out, inner)
		}
	}
	return out.String()
}
func (t *text) numeric() bool { return false }

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func writeLetters(out *strings.Builder, random *rand.Rand, count int) {
	for range count {
		out.WriteByte(letters[random.IntN(len(letters))])
	}
}

var variableName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

var reservedNames = []string{"word", "seq"}

// compileVariables compiles texts last, because only they refer to other variables; a text cannot name a text.
func compileVariables(raw map[string]json.RawMessage) (map[string]variable, error) {
	variables, texts := map[string]variable{}, map[string]json.RawMessage{}
	for name, data := range raw {
		if !variableName.MatchString(name) || slices.Contains(reservedNames, name) {
			return nil, fmt.Errorf("variables.%s: allowed names: small letters, digits, _; not word, not seq", name)
		}
		kind, value, err := onlyKey(data)
		if err != nil {
			return nil, fmt.Errorf("variables.%s: %w", name, err)
		}
		if kind == "text" {
			texts[name] = value
			continue
		}
		if variables[name], err = compileScalar(kind, value); err != nil {
			return nil, fmt.Errorf("variables.%s.%s: %w", name, kind, err)
		}
	}
	compiled := map[string]variable{}
	for name, data := range texts {
		value, err := compileText(data, variables)
		if err != nil {
			return nil, fmt.Errorf("variables.%s.text: %w", name, err)
		}
		compiled[name] = value
	}
	for name, value := range compiled {
		variables[name] = value
	}
	return variables, nil
}

const kindsAllowed = "allowed: exactly one of uniform, zipf, choice, by_user, text"

func onlyKey(data json.RawMessage) (string, json.RawMessage, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil || len(keys) != 1 {
		return "", nil, fmt.Errorf("found %s; %s", data, kindsAllowed)
	}
	for kind, value := range keys {
		return kind, value, nil
	}
	panic("a map of length 1 has an element")
}

func compileScalar(kind string, data json.RawMessage) (variable, error) {
	switch kind {
	case "uniform":
		low, high, err := bounds(data)
		return uniform{low, high}, err
	case "zipf":
		return compileZipf(data)
	case "choice":
		return compileChoice(data)
	case "by_user":
		listed, err := compileChoice(data)
		if err != nil {
			return nil, err
		}
		return byUser{listed.(choice)}, nil
	}
	return nil, fmt.Errorf("unknown kind; %s", kindsAllowed)
}

// maxBound keeps numbers exact in every JSON reader and their differences far from overflow.
const maxBound = 1 << 53

func bounds(data json.RawMessage) (low, high int64, err error) {
	var pair []int64
	if err := json.Unmarshal(data, &pair); err != nil || len(pair) != 2 {
		return 0, 0, fmt.Errorf("found %s; allowed: [low, high], integers", data)
	}
	if pair[0] > pair[1] || pair[0] < -maxBound || pair[1] > maxBound {
		return 0, 0, fmt.Errorf("found %s; allowed: low <= high, both within +-2^53", data)
	}
	return pair[0], pair[1], nil
}

const maxZipf = 10_000_000

func compileZipf(data json.RawMessage) (variable, error) {
	var raw struct {
		Low  *int64   `json:"low"`
		High *int64   `json:"high"`
		S    *float64 `json:"s"`
	}
	if err := decodeStrictly(data, &raw); err != nil || raw.Low == nil || raw.High == nil || raw.S == nil {
		return nil, fmt.Errorf("found %s; allowed: {low, high, s}", data)
	}
	if *raw.Low > *raw.High || *raw.Low < -maxBound || *raw.High > maxBound || *raw.High-*raw.Low >= maxZipf {
		return nil, fmt.Errorf("found %s; allowed: low <= high, at most %d values", data, maxZipf)
	}
	if !(*raw.S >= 0) || *raw.S > 100 {
		return nil, fmt.Errorf("s: found %v; allowed: 0 to 100", *raw.S)
	}
	return newZipf(*raw.Low, *raw.High, *raw.S), nil
}

func compileChoice(data json.RawMessage) (variable, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil || len(raw) == 0 {
		return nil, fmt.Errorf("found %s; allowed: a list of at least one word or number", data)
	}
	result := choice{numbers: true}
	for _, item := range raw {
		var word string
		var number json.Number
		if json.Unmarshal(item, &word) == nil && item[0] == '"' {
			result.numbers = false
		} else if json.Unmarshal(item, &number) == nil && item[0] != '"' && string(item) != "null" {
			word = number.String()
			if _, err := number.Int64(); err != nil {
				result.numbers = false
			}
		} else {
			return nil, fmt.Errorf("found %s; allowed: words and numbers", item)
		}
		result.words = append(result.words, word)
	}
	return result, nil
}

// maxCharacters bounds one text and one {word:N}.
const maxCharacters = 1 << 20

func compileText(data json.RawMessage, variables map[string]variable) (variable, error) {
	var raw struct {
		Characters int `json:"characters"`
		Repeat     []struct {
			Times json.RawMessage `json:"times"`
			Value string          `json:"value"`
		} `json:"repeat"`
	}
	if err := decodeStrictly(data, &raw); err != nil {
		return nil, err
	}
	if raw.Characters < 0 || raw.Characters > maxCharacters {
		return nil, fmt.Errorf("characters: found %d; allowed: 0 to %d", raw.Characters, maxCharacters)
	}
	result := &text{characters: raw.Characters}
	for index, part := range raw.Repeat {
		low, high, err := bounds(part.Times)
		if err == nil && (low < 0 || high > 10_000) {
			err = fmt.Errorf("found %s; allowed: 0 to 10000", part.Times)
		}
		if err != nil {
			return nil, fmt.Errorf("repeat[%d].times: %w", index, err)
		}
		value, err := compileTemplate(part.Value, variables)
		if err != nil {
			return nil, fmt.Errorf("repeat[%d].value: %w", index, err)
		}
		result.repeats = append(result.repeats, repeat{low, high, value})
	}
	return result, nil
}
