package data

import "encoding/json"

// ShortURLPrefix precedes the code of a short URL in a post, as in DeathStarBench.
const ShortURLPrefix = "http://short-url/"

type mention struct {
	UserID   int64  `json:"user_id"`
	Username string `json:"username"`
}

type urlPair struct {
	Short string `json:"short"`
	Long  string `json:"long"`
}

// cachedPost is the JSON of a post, with the lists as the database holds them: no need to parse them to copy them.
type cachedPost struct {
	PostID      int64           `json:"post_id,string"`
	Creator     mention         `json:"creator"`
	Text        string          `json:"text"`
	Mentions    json.RawMessage `json:"user_mentions"`
	URLs        json.RawMessage `json:"urls"`
	Media       json.RawMessage `json:"media"`
	PostType    int32           `json:"post_type"`
	TimestampMS int64           `json:"timestamp_ms"`
}

func (p Post) mentionValues() []mention {
	values := make([]mention, 0, len(p.Mentions))
	for _, user := range p.Mentions {
		values = append(values, mention{int64(user), Username(user)})
	}
	return values
}

func (p Post) urlValues(seed uint64) []urlPair {
	values := make([]urlPair, 0, len(p.URLs))
	for _, number := range p.URLs {
		values = append(values, urlPair{ShortURLPrefix + ShortCode(number), LongURL(seed, number, postURLBytes)})
	}
	return values
}
