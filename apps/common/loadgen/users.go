package loadgen

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"time"
)

// usersDocument describes the simulated users of a workload.
type usersDocument struct {
	Count       int               `json:"count"`
	Order       string            `json:"order"`
	Concurrency *int              `json:"concurrency"`
	LoginLimitS *float64          `json:"login_limit_s"`
	Login       []requestDocument `json:"login"`
}

// Users is the pool of simulated users: each has cookies and values of its own, and logs in once, before the warm-up.
type Users struct {
	Count       int
	random      bool // a request's user is drawn; else users take turns
	concurrency int  // users that log in at the same time
	limit       time.Duration
	login       []*Class
}

const (
	maxUsers           = 100_000
	defaultConcurrency = 10
	maxConcurrency     = 1_000
	defaultLoginLimitS = 120
	maxLoginLimitS     = 3_600
	maxSteps           = 50
)

// compileUsers compiles all but the steps of the log-in, which need the workload's names.
func compileUsers(raw *usersDocument) (*Users, error) {
	if raw.Count < 1 || raw.Count > maxUsers {
		return nil, fmt.Errorf("count: found %d; allowed: 1 to %d", raw.Count, maxUsers)
	}
	users := &Users{Count: raw.Count, concurrency: defaultConcurrency, limit: seconds(defaultLoginLimitS)}
	switch raw.Order {
	case "", "round-robin":
	case "random":
		users.random = true
	default:
		return nil, fmt.Errorf("order: found %q; allowed: round-robin, random", raw.Order)
	}
	if raw.Concurrency != nil {
		users.concurrency = *raw.Concurrency
	}
	if users.concurrency < 1 || users.concurrency > maxConcurrency {
		return nil, fmt.Errorf("concurrency: found %d; allowed: 1 to %d", users.concurrency, maxConcurrency)
	}
	if raw.LoginLimitS != nil {
		if !(*raw.LoginLimitS > 0) || *raw.LoginLimitS > maxLoginLimitS {
			return nil, fmt.Errorf("login_limit_s: found %v; allowed: above 0, at most %d", *raw.LoginLimitS, maxLoginLimitS)
		}
		users.limit = seconds(*raw.LoginLimitS)
	}
	if len(raw.Login) > maxSteps {
		return nil, fmt.Errorf("login: found %d steps; allowed: at most %d", len(raw.Login), maxSteps)
	}
	return users, nil
}

// assignment says whose the request with a number is; without users all are those of number 0.
func (workload *Workload) assignment(seed uint64) func(index int) int {
	users := workload.users
	switch {
	case users == nil:
		return func(int) int { return 0 }
	case users.random:
		random := rand.New(rand.NewPCG(seed, streamUsers))
		return func(int) int { return random.IntN(users.Count) }
	}
	return func(index int) int { return index % users.Count }
}

// user is one simulated user.  Its requests may overlap: nothing waits for a reply, so each uses the latest values.
type user struct {
	number  int
	cookies http.CookieJar // nil: keeps none
	lock    sync.Mutex
	values  map[string]string
}

// newUsers makes the users of a workload; one that keeps nothing where it has none.
func newUsers(workload *Workload) ([]*user, error) {
	if workload.users == nil {
		return []*user{{}}, nil
	}
	users := make([]*user, workload.users.Count)
	for number := range users {
		jar, err := cookiejar.New(nil)
		if err != nil {
			return nil, fmt.Errorf("cookies: %w", err)
		}
		users[number] = &user{number: number, cookies: jar, values: map[string]string{}}
	}
	return users, nil
}

func (u *user) value(name string) (string, bool) {
	u.lock.Lock()
	defer u.lock.Unlock()
	value, known := u.values[name]
	return value, known
}

// take keeps the values that a reply delivers; it returns the name of one that is not in it, or "".
func (u *user) take(takes []take, from *reply) string {
	delivered := map[string]string{}
	for index := range takes {
		value, there := takes[index].from(from)
		if !there {
			return takes[index].name
		}
		delivered[takes[index].name] = value
	}
	u.lock.Lock()
	defer u.lock.Unlock()
	for name, value := range delivered {
		u.values[name] = value
	}
	return ""
}

// place is what decides which cookies belong to a request.  It counts as encrypted: cookies marked "Secure" are
// common where a proxy in front of the application would end the encryption.
func (out *outgoing) place() *url.URL {
	path, _, _ := strings.Cut(out.path, "?")
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	return &url.URL{Scheme: "https", Host: out.host, Path: path}
}

func (u *user) addCookies(out *outgoing) {
	if u.cookies == nil {
		return
	}
	var pairs []string
	for _, cookie := range u.cookies.Cookies(out.place()) {
		pairs = append(pairs, cookie.Name+"="+cookie.Value)
	}
	out.cookies = strings.Join(pairs, "; ")
}

func (u *user) keepCookies(out *outgoing, got *reply) {
	if u.cookies == nil || len(got.header["Set-Cookie"]) == 0 {
		return
	}
	u.cookies.SetCookies(out.place(), (&http.Response{Header: got.header}).Cookies())
}
