package data

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"tailor/apps/common/fixture"
	"tailor/apps/social-network/internal/api"
)

const checkedURLs = 20

// checkURL is the n-th URL that the check shortens.
func checkURL(n int) string {
	return fmt.Sprintf("http://check.example/%d/%s", n, strings.Repeat("x", 80))
}

func writeURLs(ctx context.Context, front *fixture.Caller) error {
	var lost fixture.Losses
	for n := range checkedURLs {
		var shortened api.URLs
		if err := front.PostForm(ctx, api.PathShorten, url.Values{"url": {checkURL(n)}}, &shortened); err != nil {
			return err
		}
		if len(shortened.URLs) != 1 || shortened.URLs[0].Long != checkURL(n) {
			lost.Add("shortening %s gave %v", checkURL(n), shortened)
			continue
		}
		resolve(ctx, front, api.PathResolve, shortened.URLs[0], &lost)
	}
	return lost.Report("%d URLs shortened and resolved", checkedURLs)
}

// verifyURLs finds the short forms in the database, because shortening again would hide that one was lost.
func verifyURLs(ctx context.Context, front *fixture.Caller) error {
	wanted := map[string]bool{}
	for n := range checkedURLs {
		wanted[checkURL(n)] = true
	}
	var stored []api.URL
	var short, long string
	query := `SELECT short, long FROM urls WHERE long LIKE 'http://check.example/%' OR short LIKE 'u__5'`
	err := fixture.EachRow(ctx, URLShortenDB, query, []any{&short, &long}, func() error {
		stored = append(stored, api.URL{Short: short, Long: long})
		delete(wanted, long)
		return nil
	})
	if err != nil {
		return err
	}
	var lost fixture.Losses
	for long := range wanted {
		lost.Add("%s is not in the database", long)
	}
	for _, pair := range stored {
		resolve(ctx, front, api.PathResolve, pair, &lost)
	}
	if err := fixture.Flush(ctx, []string{URLShortenMemcached}); err != nil {
		return err
	}
	for _, pair := range stored {
		resolve(ctx, front, api.PathResolve, pair, &lost)
	}
	return lost.Report("%d URLs resolved, with and without the cache", len(stored))
}

// resolve asks for what a short URL stands for.
func resolve(ctx context.Context, client *fixture.Caller, address string, pair api.URL, lost *fixture.Losses) {
	var found api.URL
	if err := client.Get(ctx, address, url.Values{"short": {pair.Short}}, &found); err != nil {
		lost.Add("%s does not resolve: %v", pair.Short, err)
	} else if found.Long != pair.Long {
		lost.Add("%s resolves to %s instead of %s", pair.Short, found.Long, pair.Long)
	}
}
