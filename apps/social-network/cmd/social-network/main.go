// Command social-network is every logic service of the application, with the role as its argument.
package main

import (
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

func main() {
	service.Main("social-network", map[string]service.Role{
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
	}, map[string]service.Task{"seed": data.Seed, "prepare": data.Prepare, "check": data.Check})
}
