package loadgen

import (
	"strings"
	"testing"
)

func TestMalformedWorkloadsAreRefused(t *testing.T) {
	const head = `{"kind": "workload", "version": 1, "timeout_ms": 100, `
	request := func(rest string) string {
		return head + `"variables": {"n": {"uniform": [1, 2]}, "c": {"choice": ["a"]}}, "requests": [{"name": "a", "weight": 1, ` + rest + `}]}`
	}
	variable := func(value string) string {
		return head + `"variables": {"n": ` + value + `}, "requests": [{"name": "a", "weight": 1, "path": "/"}]}`
	}
	users := func(users, rest string) string {
		return strings.Replace(request(`"path": "/"`+rest), `"requests"`, `"users": {`+users+`}, "requests"`, 1)
	}
	for name, test := range map[string]struct{ document, message string }{
		"not JSON":           {`{`, "unexpected"},
		"unknown key":        {head + `"reqests": []}`, "reqests"},
		"something after":    {head + `"requests": [{"name": "a", "weight": 1, "path": "/"}]} 1`, "follows"},
		"version":            {`{"kind": "workload", "version": 2}`, "version"},
		"no timeout":         {`{"kind": "workload", "version": 1, "requests": []}`, "timeout_ms"},
		"no requests":        {head + `"requests": []}`, "requests"},
		"same name":          {head + `"requests": [{"name": "a", "weight": 1, "path": "/"}, {"name": "a", "weight": 1, "path": "/"}]}`, "twice"},
		"weight":             {head + `"requests": [{"name": "a", "weight": 0, "path": "/"}]}`, "weight"},
		"method":             {request(`"path": "/", "method": "FETCH"`), "method"},
		"path":               {request(`"path": "relative"`), "path"},
		"path with a query":  {request(`"path": "/?a=b"`), "path"},
		"unknown variable":   {request(`"path": "/{m}"`), "unknown variable; known: c, n, seq, word:N"},
		"bad placeholder":    {request(`"path": "/{N N}"`), "allowed: {name}"},
		"single brace":       {request(`"path": "/", "body": "{"`), "single {"},
		"sum of a word":      {request(`"path": "/{c+1}"`), "not a number"},
		"word needs length":  {request(`"path": "/{word}"`), "length"},
		"length of variable": {request(`"path": "/{n:3}"`), "length"},
		"form and body":      {request(`"path": "/", "body": "", "form": {"a": "b"}`), "only one"},
		"header":             {request(`"path": "/", "headers": {"a b": "c"}`), "headers.a b"},
		"own header":         {request(`"path": "/", "headers": {"traceparent": "c"}`), "itself"},
		"break in a header":  {strings.Replace(request(`"path": "/", "headers": {"x": "{c}"}`), `["a"]`, `["a\nb"]`, 1), "line break"},
		"break in a text":    {strings.Replace(request(`"path": "/", "headers": {"x": "{t}"}`), `{"n"`, `{"t": {"text": {"characters": 1, "repeat": [{"times": [0, 1], "value": "\r"}]}}, "n"`, 1), "line break"},
		"expect.status":      {request(`"path": "/", "expect": {"status": 20}`), "expect.status"},
		"expect.body":        {request(`"path": "/", "expect": {"body": "("}`), "expect.body"},
		"expect.min_items":   {request(`"path": "/", "expect": {"min_items": -1}`), "min_items"},
		"kind of variable":   {variable(`{"normal": [1, 2]}`), "unknown kind"},
		"two kinds":          {variable(`{"uniform": [1, 2], "choice": ["a"]}`), "exactly one"},
		"bounds":             {variable(`{"uniform": [2, 1]}`), "low <= high"},
		"one bound":          {variable(`{"uniform": [2]}`), "[low, high]"},
		"fraction":           {variable(`{"uniform": [1.5, 2]}`), "integers"},
		"zipf without s":     {variable(`{"zipf": {"low": 1, "high": 2}}`), "{low, high, s}"},
		"empty choice":       {variable(`{"choice": []}`), "at least one"},
		"choice of objects":  {variable(`{"choice": [{}]}`), "words and numbers"},
		"times":              {variable(`{"text": {"repeat": [{"times": [-1, 2], "value": ""}]}}`), "times"},
		"text in text":       {variable(`{"text": {"repeat": [{"times": [1, 2], "value": "{n}"}]}}`), "unknown variable"},
		"protocol":           {strings.Replace(request(`"path": "/"`), `"requests"`, `"protocol": "h3", "requests"`, 1), "allowed: http/1.1, h2, h2c"},
		"connections":        {strings.Replace(request(`"path": "/"`), `"requests"`, `"connections": 2, "requests"`, 1), "belongs to protocol h2"},
		"descriptors":        {strings.Replace(request(`"path": "/"`), `"requests"`, `"descriptors": "a", "requests"`, 1), "belongs to requests with grpc"},
		"take without users": {request(`"path": "/", "take": {"a": {"json": "$"}}`), "there are none"},
		"by_user, no users":  {variable(`{"by_user": ["a"]}`), "there are no `users`"},
		"number of users":    {users(`"count": 0`, ""), "users.count"},
		"order":              {users(`"count": 1, "order": "any"`, ""), "round-robin, random"},
		"concurrency":        {users(`"count": 1, "concurrency": 0`, ""), "users.concurrency"},
		"login_limit_s":      {users(`"count": 1, "login_limit_s": 0`, ""), "users.login_limit_s"},
		"weight of a step":   {users(`"count": 1, "login": [{"name": "a", "weight": 1, "path": "/"}]`, ""), "a step has none"},
		"value too early":    {users(`"count": 1, "login": [{"name": "a", "path": "/{v}", "take": {"v": {"json": "$"}}}]`, ""), "unknown variable"},
		"two places":         {users(`"count": 1`, `, "take": {"v": {"json": "$", "header": "a"}}`), "exactly one of json"},
		"path into JSON":     {users(`"count": 1`, `, "take": {"v": {"json": "$..a"}}`), "allowed: $, then"},
		"groups":             {users(`"count": 1`, `, "take": {"v": {"regex": "a"}}`), "found 0 groups"},
		"value of variable":  {users(`"count": 1`, `, "take": {"n": {"json": "$"}}`), "name of a variable"},
		"cookie header":      {users(`"count": 1`, `, "headers": {"cookie": "a=b"}`), "their own cookies"},
		"unknown file":       {request(`"path": "/", "body_file": "a"`), "allowed: the plan's files"},
		"body and file":      {request(`"path": "/", "body_file": "a", "body": ""`), "only one of them"},
		"call and path":      {request(`"path": "/", "grpc": {"method": "a.B/C"}`), "no method, path"},
		"method of a call":   {request(`"grpc": {"method": "a.B.C"}`), "package.Service/Method"},
		"message":            {request(`"grpc": {"method": "a.B/C", "message": []}`), "a JSON object"},
		"metadata":           {request(`"grpc": {"method": "a.B/C", "metadata": {"grpc-timeout": "1S"}}`), "grpc.metadata.grpc-timeout"},
		"code":               {request(`"grpc": {"method": "a.B/C"}, "expect": {"code": "FINE"}`), "NOT_FOUND"},
		"status of a call":   {request(`"grpc": {"method": "a.B/C"}, "expect": {"status": 200}`), "allowed: code, body"},
		"code without grpc":  {request(`"path": "/", "expect": {"code": "OK"}`), "belongs to a request with grpc"},
		"name of variable":   {strings.Replace(variable(`{"uniform": [1, 2]}`), `{"n"`, `{"seq"`, 1), "allowed names"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadWorkload([]byte(test.document), nil)
			if err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("found %v; wanted an error with %q", err, test.message)
			}
		})
	}
}

func TestMalformedPlansAreRefused(t *testing.T) {
	good := `{"workload": {}, "rate_rps": 10, "arrivals": "poisson", "warmup_s": 0, "window_s": 1, "seed": 1, "target": "http://a", "otlp_endpoint": "", "trace": false}`
	if _, err := ReadPlan(strings.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ old, new, message string }{
		{`"rate_rps": 10`, `"rate_rps": 0`, "rate_rps"},
		{`"rate_rps": 10`, `"rate_rps": 1e9`, "requests"},
		{`poisson`, `uniform`, "arrivals"},
		{`"warmup_s": 0`, `"warmup_s": -1`, "warmup_s"},
		{`"window_s": 1`, `"window_s": 0`, "window_s"},
		{`"seed": 1`, `"seed": -1`, "seed"},
		{`http://a`, `a:80`, "target"},
		{`http://a`, `http://a/`, "slash"},
		{`http://a`, `ftp://a`, "http or https://host:port"},
		{`"seed": 1`, `"seed": 1, "propagation": ["x"]`, "b3-multi"},
		{`"trace": false`, `"trace": true`, "otlp_endpoint"},
		{`"seed": 1`, `"seed": 1, "roots": "drop"`, "export, report"},
		{`"trace"`, `"tracing"`, "tracing"},
	} {
		_, err := ReadPlan(strings.NewReader(strings.Replace(good, test.old, test.new, 1)))
		if err == nil || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%s: found %v; wanted an error with %q", test.new, err, test.message)
		}
	}
}
