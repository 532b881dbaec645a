package data

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tailor/apps/social-network/internal/api"
)

// patienceWithReplies is how long one request of a check may take.
const patienceWithReplies = 20 * time.Second

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
	client := &caller{base: *front, client: &http.Client{Timeout: patienceWithReplies}}
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

// caller makes requests as a client of the application does.
type caller struct {
	base   string
	client *http.Client
}

func (c *caller) get(ctx context.Context, address string, query url.Values, into any) error {
	return c.do(ctx, http.MethodGet, address+"?"+query.Encode(), nil, into)
}

func (c *caller) postForm(ctx context.Context, path string, form url.Values, into any) error {
	return c.do(ctx, http.MethodPost, path, strings.NewReader(form.Encode()), into)
}

// do requests a path of the front end, or a whole address; a status other than 200 is an error that quotes the reply.
func (c *caller) do(ctx context.Context, method, address string, body io.Reader, into any) error {
	if strings.HasPrefix(address, "/") {
		address = c.base + address
	}
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	reply, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	content, err := io.ReadAll(reply.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, address, err)
	}
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %.200s", method, address, reply.Status, bytes.TrimSpace(content))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s %s: %w in %.200q", method, address, err, content)
	}
	return nil
}

// losses collects what a check misses, so that one run names all of it.
type losses []string

func (l *losses) add(format string, args ...any) { *l = append(*l, fmt.Sprintf(format, args...)) }

// shownLosses keeps the message readable when everything is gone.
const shownLosses = 10

func (l losses) err() error {
	if len(l) == 0 {
		return nil
	}
	shown := l[:min(len(l), shownLosses)]
	return fmt.Errorf("%d lost or wrong:\n  %s", len(l), strings.Join(shown, "\n  "))
}

// flush empties caches: memcached and redis by their ports.
func flush(ctx context.Context, addresses []string) error {
	for _, address := range addresses {
		command, wanted := "flush_all\r\n", "OK"
		if strings.HasSuffix(address, ":6379") {
			command, wanted = "FLUSHALL\r\n", "+OK"
		}
		reply, err := ask(ctx, address, command)
		if err != nil {
			return err
		}
		if reply != wanted {
			return fmt.Errorf("%s replied %q to %q", address, reply, strings.TrimSpace(command))
		}
	}
	return nil
}

func ask(ctx context.Context, address, command string) (string, error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patienceWithReplies)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return "", fmt.Errorf("%s: %w", address, err)
	}
	reply := make([]byte, 256)
	n, err := conn.Read(reply)
	if err != nil {
		return "", fmt.Errorf("%s: %w", address, err)
	}
	return strings.TrimSpace(string(reply[:n])), nil
}
