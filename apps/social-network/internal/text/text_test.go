package text

import (
	"slices"
	"strings"
	"testing"

	"tailor/apps/social-network/internal/api"
)

func TestMentions(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                  {},
		"nobody @ all":                      {},
		"hello @username_1":                 {"username_1"},
		"@a-b @C, and @a-b again, mail x@y": {"a-b", "C", "y"},
		"@@double":                          {"double"},
		"@" + strings.Repeat("n", 65):       {},
		"@" + strings.Repeat("n", 64):       {strings.Repeat("n", 64)},
	} {
		if got := Mentions(text); !slices.Equal(got, want) {
			t.Errorf("%q mentions %q, want %q", text, got, want)
		}
	}
}

func TestURLs(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                  {},
		"http:// https:// ftp://x www.y":    {},
		"see http://a/b?c=d  https://e end": {"http://a/b?c=d", "https://e"},
		"http://a http://a":                 {"http://a"},
	} {
		if got := URLs(text); !slices.Equal(got, want) {
			t.Errorf("%q has %q, want %q", text, got, want)
		}
	}
}

func TestReplace(t *testing.T) {
	urls := []api.URL{{Short: "http://short-url/1", Long: "http://a"}, {Short: "http://short-url/2", Long: "http://ab"}}
	for text, want := range map[string]string{
		" two  http://a\nhttp://ab and\thttp://a ": " two  http://short-url/1\nhttp://short-url/2 and\thttp://short-url/1 ",
		"none":             "none",
		"http://abc stays": "http://abc stays",
	} {
		if got := Replace(text, urls); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func FuzzReplaceByItselfChangesNothing(f *testing.F) {
	f.Add(" a http://x  http://x/é\t@b\n")
	f.Fuzz(func(t *testing.T, text string) {
		var same []api.URL
		for _, url := range URLs(text) {
			same = append(same, api.URL{Short: url, Long: url})
		}
		if got := Replace(text, same); got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}
