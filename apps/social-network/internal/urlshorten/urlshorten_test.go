package urlshorten

import (
	"testing"

	"tailor/apps/common/storetest"
)

func TestCodeIsAFunctionOfTheURL(t *testing.T) {
	if Code("http://a") != Code("http://a") || Code("http://a") == Code("http://b") {
		t.Error("a code must be the same for the same URL and differ for another")
	}
	if got := len(Code("")); got != codeLength {
		t.Errorf("%d characters", got)
	}
}

func TestShortFormsAreStoredOnceAndFoundAgain(t *testing.T) {
	s := storetest.Service(t, "url-shorten")
	database := storetest.Database(t, s, "CREATE TABLE urls (short text PRIMARY KEY, long text NOT NULL)")
	u := &shortener{database, storetest.Memcached(t, s)}
	ctx := t.Context()
	for range 2 {
		if err := u.store(ctx, []string{"b", "a", "b"}, []string{"http://b", "http://a", "http://b"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // from the database, then from the cache
		if got, err := u.find(ctx, "b"); err != nil || got != "http://b" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := u.store(ctx, []string{"a"}, []string{"http://another"}); err == nil {
		t.Error("a code that stands for another URL was given out")
	}
	if _, err := u.find(ctx, "c"); err == nil {
		t.Error("an unknown code was resolved")
	}
}
