package poststorage

import (
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"tailor/apps/common/storetest"
	"tailor/apps/social-network/internal/api"
)

const table = `CREATE TABLE posts (post_id bigint PRIMARY KEY, creator_id bigint, creator_username text, text text,
	mentions jsonb, urls jsonb, media jsonb, post_type int, created_ms bigint)`

const first = `{"post_id":"1176331717801820160","creator":{"user_id":1,"username":"username_1"},"text":"é \"q\"\n",
	"user_mentions":[{"user_id":2,"username":"username_2"}],"urls":[{"short":"http://short-url/a","long":"http://b?c&d"}],
	"media":[{"media_id":"1","media_type":"png"}],"post_type":0,"timestamp_ms":123}`

const second = `{"post_id":"2","creator":{"user_id":1,"username":"username_1"},"text":"x","user_mentions":[],"urls":[],
	"media":[],"post_type":3,"timestamp_ms":124}`

func TestPostsComeBackAsTheyWereInTheOrderAskedFor(t *testing.T) {
	s := storetest.Service(t, "post-storage")
	p := &storage{storetest.Database(t, s, table), storetest.Memcached(t, s)}
	for _, post := range []string{first, second} {
		if err := p.store(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(post))); err != nil {
			t.Fatal(err)
		}
	}
	var want any
	if err := json.Unmarshal([]byte("["+second+","+first+","+second+"]"), &want); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"database", "cache"} {
		answer := httptest.NewRecorder()
		if err := p.read(answer, httptest.NewRequest("GET", "/posts?ids=2,1176331717801820160,2", nil)); err != nil {
			t.Fatal(err)
		}
		var got any
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("from the %s: %s", source, answer.Body)
		}
	}
	if err := p.read(httptest.NewRecorder(), httptest.NewRequest("GET", "/posts?ids=2,77", nil)); err == nil {
		t.Error("a reply without one of the posts is no reply")
	}
}

func TestIDsTravelAsDecimals(t *testing.T) {
	var post api.Post
	if err := json.Unmarshal([]byte(first), &post); err != nil || post.PostID != 1176331717801820160 {
		t.Errorf("%d, %v", post.PostID, err)
	}
	encoded, err := json.Marshal(&post)
	if err != nil || !strings.HasPrefix(string(encoded), `{"post_id":"1176331717801820160"`) {
		t.Errorf("%s, %v", encoded, err)
	}
}
