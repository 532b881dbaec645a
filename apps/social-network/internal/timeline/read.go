package timeline

import (
	"net/http"
	"net/url"
	"strconv"

	"tailor/apps/common/service"
	"tailor/apps/social-network/internal/api"
)

// maxPage bounds how many posts one request reads.
const maxPage = 1000

// Reader answers user_id, start and stop with the posts themselves. The reply of post-storage is passed on as it is.
func (t *Timelines) Reader(posts *service.Client) service.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		user, start, stop, err := window(r.URL.Query())
		if err != nil {
			return err
		}
		ids, err := t.Read(r.Context(), user, start, stop)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return service.WriteBody(w, "application/json", []byte("[]"))
		}
		reply, err := posts.Get(r.Context(), api.PathReadPosts, url.Values{"ids": {list(ids)}})
		if err != nil {
			return err
		}
		return service.WriteBody(w, "application/json", reply)
	}
}

func window(query url.Values) (user, start, stop int64, err error) {
	for name, target := range map[string]*int64{"user_id": &user, "start": &start, "stop": &stop} {
		if *target, err = service.IntegerOf(query, name); err != nil {
			return 0, 0, 0, err
		}
	}
	if start < 0 || stop < start || stop-start > maxPage {
		return 0, 0, 0, service.BadRequest("start=%d, stop=%d: allowed is 0 <= start <= stop <= start + %d",
			start, stop, maxPage)
	}
	return user, start, stop, nil
}

func list(ids []int64) string {
	text := make([]byte, 0, 20*len(ids))
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, id, 10)
	}
	return string(text)
}
