package data

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"tailor/apps/common/fixture"
	"tailor/apps/social-network/internal/api"
)

// Check proves that a configuration keeps what it is given: `check [--only url-shorten] [write] [verify]`, both in turn
// where none is named.
//
// write composes through the front end and reads everything back at once.  verify reads it back again, then empties
// every cache and reads once more, so that what only a cache held shows up as lost.  The texts are the same in every
// run, so the two may also stand in commands of their own.  The error names what was lost.
func Check(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	only := flags.String("only", "", "url-shorten: check that service alone, as the front end of a small application offers it")
	front := flags.String("front", "http://nginx:8080", "address of the front end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	steps := flags.Args()
	if len(steps) == 0 {
		steps = []string{"write", "verify"}
	}
	client := fixture.NewCaller(*front)
	known := map[string]func() error{
		"write":  func() error { return writePosts(ctx, newSocialCheck(client)) },
		"verify": func() error { return verifyPosts(ctx, newSocialCheck(client)) },
	}
	switch *only {
	case "":
	case api.URLShorten:
		known = map[string]func() error{
			"write":  func() error { return writeURLs(ctx, client) },
			"verify": func() error { return verifyURLs(ctx, client) },
		}
	default:
		return fmt.Errorf("--only %s: known is %s", *only, api.URLShorten)
	}
	for _, step := range steps {
		do, ok := known[step]
		if !ok {
			return errors.New("usage: check [--only url-shorten] [--front URL] [write] [verify]")
		}
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}
