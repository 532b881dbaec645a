// Command social-network is every logic service of the application in one static binary, with the role as its
// argument: one small image serves them all.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
	"tailor/apps/social-network/internal/composepost"
	"tailor/apps/social-network/internal/data"
	"tailor/apps/social-network/internal/hometimeline"
	"tailor/apps/social-network/internal/media"
	"tailor/apps/social-network/internal/poststorage"
	"tailor/apps/social-network/internal/socialgraph"
	"tailor/apps/social-network/internal/text"
	"tailor/apps/social-network/internal/uniqueid"
	"tailor/apps/social-network/internal/urlshorten"
	"tailor/apps/social-network/internal/user"
	"tailor/apps/social-network/internal/usermention"
	"tailor/apps/social-network/internal/usertimeline"
	"tailor/apps/social-network/internal/writehometimeline"
)

var roles = map[string]func(context.Context, *service.Service) error{
	api.ComposePost:       composepost.New,
	api.Text:              text.New,
	api.UserMention:       usermention.New,
	api.URLShorten:        urlshorten.New,
	api.UniqueID:          uniqueid.New,
	api.Media:             media.New,
	api.User:              user.New,
	api.UserTimeline:      usertimeline.New,
	api.HomeTimeline:      hometimeline.New,
	api.WriteHomeTimeline: writehometimeline.New,
	api.SocialGraph:       socialgraph.New,
	api.PostStorage:       poststorage.New,
}

// tasks run once and end: they make and check the data that the roles work on.
var tasks = map[string]func(context.Context, []string) error{
	"seed":    data.Seed,
	"prepare": data.Prepare,
	"check":   data.Check,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "social-network:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return errors.New("no role; known are " + known())
	}
	name := arguments[0]
	if task, isTask := tasks[name]; isTask {
		if err := task(ctx, arguments[1:]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	role, isRole := roles[name]
	if !isRole {
		return fmt.Errorf("unknown role %q; known are %s", name, known())
	}
	s, err := service.New(ctx, name, os.LookupEnv)
	if err != nil {
		return err
	}
	if err := role(ctx, s); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return s.Run(ctx)
}

func known() string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(roles)), maps.Keys(tasks))
	slices.Sort(names)
	return strings.Join(names, ", ")
}
