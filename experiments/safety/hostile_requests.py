"""Requests, made from a seed: every route, with what does not belong into its path, query, headers and body."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from experiments.safety.target import JOB, PARAMETERS, Known, Place
from experiments.safety.wire import Request

PAGES = (
    "GET /", "GET /studies-table", "GET /studies/{study}", "GET /studies/{study}/body", "GET /launch", "GET /compare",
    "GET /optimizers", "GET /login", "POST /login", "POST /logout", "GET /static/{name}", "GET /v1/openapi.json",
    "GET /docs", "GET /{path}", "POST /v1/{path}",
)  # fmt: skip
QUERIES: Mapping[str, Sequence[str]] = {
    "/": ("state", "application", "after"), "/studies-table": ("state", "application"), "/launch": ("application",),
    "/compare": ("first", "second"), "/optimizers": ("application",),
}  # fmt: skip
# The weight of a route among all; 1 where it is not named.
WEIGHTS = (
    (re.compile(r"DELETE"), 0.4),
    (re.compile(r"/(machine|metrics)$"), 0.2),  # asks for an engine; counts all studies
    (re.compile(r"GET /v1/applications|GET /launch"), 0.3),  # read every application
    (re.compile(r"/(report|export|best[.]tar[.]gz|events)$"), 0.4),
    (re.compile(r"POST /v1/(studies|external)$"), 3.0),
)

PATHS = (
    "/etc/passwd", "../../../../etc/passwd", "..", ".", "~", "~root", "/dev/zero", "/proc/self/environ", "file:///etc/passwd",
    "....//....//etc/passwd", "..\\..\\windows\\win.ini", "C:\\boot.ini", "/", "//", "", " ", "tailor.db", "s.db",
)  # fmt: skip
TEXTS = (
    "\0", "a\0b", "\x1b[31mred", "a\nb", "a\r\nSet-Cookie: x=y", "%00", "%2e%2e%2f", "${TAILOR_DATABASE}",
    "$(id)", "`id`",
    "{{7*7}}", "<script>alert(1)</script>", "' OR 1=1 --", "\ud800", "𝔘𝔫𝔦", "a" * 200, "a" * 20_000, "null", "true",
    "__proto__", "id:default", ":", ":default", "%", "_", "*", "-1", "1e400", "NaN", "0x10", "１２", "9" * 400,
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2**31, 2**63, 2**64, 10**400, -(2**63), 1e308, -1e308, 5e-324, float("nan"), float("inf"), -float("inf"),
    0.1, True, False, None,
)  # fmt: skip
ARGUMENTS = ("space", "seed", "budget", "start", "modelled", "self")  # of an optimizer's constructor
REDUCTIONS = (
    "bottlenecks:/etc/passwd", "bottlenecks:{passwd}", "bottlenecks:/dev/zero", "screening:{passwd}", "screening:../..",
    "file:{passwd}", "bottlenecks:{results}", "screening:{study}", "bottlenecks", "critical-path+bottlenecks",
)  # fmt: skip
RAW = (
    b"", b"{", b"[]", b"null", b"NaN", b'"text"', b"\xff\xfe{}", b"\0", b"{}" * 10, b"[" * 100_000, b'{"a":' * 50_000,
    b'{"count": 1e999, "client": "a"}', b'{"client": "a", "client": "b"}', b"1" * 10_000, b'{"a": "\\ud800"}',
    b'{"a": ' + b"9" * 5_000 + b"}", b"token=x&token=y", b"a" * (2**20 + 1), b"{" + b" " * 900_000 + b"}",
)  # fmt: skip


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    queries: tuple[str, ...]
    takes_body: bool
    page: bool

    @property
    def what(self) -> str:
        return f"{'page ' if self.page else ''}{self.method} {self.path}"


def routes_of(openapi: Mapping[str, Any]) -> list[Route]:
    """Return the routes of the service's own description, and its pages."""
    routes = []
    for path, methods in openapi["paths"].items():
        for method, about in methods.items():
            queries = tuple(
                parameter["name"] for parameter in about.get("parameters", ()) if parameter["in"] == "query"
            )
            routes.append(Route(method.upper(), path, queries, "requestBody" in about, page=False))
    for line in PAGES:
        method, path = line.split()
        routes.append(Route(method, path, tuple(QUERIES.get(path, ())), method == "POST", page=True))
    return routes


class Requests:
    """An endless series of requests for one thread."""

    def __init__(self, seed: str, place: Place, known: Known, routes: Sequence[Route]) -> None:
        self._random = random.Random(seed)
        self._routes = routes
        self._weights = [self._weight(route) for route in routes]
        self._known = known
        self._passwd = str(place.passwd)
        self._paths = (*PATHS, self._passwd, f"../../..{self._passwd}", str(place.passwd.parent))
        self._tokens = 0

    def _weight(self, route: Route) -> float:
        return next((weight for pattern, weight in WEIGHTS if pattern.search(route.what)), 1.0)

    def next(self) -> Request:
        """The next request."""
        rng = self._random
        [route] = rng.choices(self._routes, self._weights)
        method = (
            route.method
            if rng.random() < 0.97
            else rng.choice(["HEAD", "PUT", "PATCH", "OPTIONS", "TRACE", "GET", "X"])
        )
        target = self._target(route)
        body = self._body(route) if route.takes_body or rng.random() < 0.02 else None
        return Request(route.what, method, target, tuple(self._headers(body)), body)

    # ------------------------------------------------------------------ the first line

    def _target(self, route: Route) -> bytes:
        path = re.sub(r"\{(\w+)\}", lambda name: self._segment(route, name[1]), route.path)
        rng = self._random
        queries = [f"{name}={self._encoded(self._value(name))}" for name in route.queries if rng.random() < 0.5]
        if rng.random() < 0.05:
            queries.append(f"{self._encoded(rng.choice(TEXTS))}={self._encoded(self._path())}")
        target = path + ("?" + "&".join(queries) if queries else "")
        raw = target.encode("utf-8", "surrogatepass")
        if rng.random() < 0.01:
            raw = rng.choice(
                [b"*", b"http://evil.example/v1/studies", b"//evil.example/", b"/" + b"a" * 70_000, b"/\x80\xff"]
            )
        return re.sub(rb"[\x00-\x20\x7f]", b"%20", raw) if rng.random() < 0.995 else raw

    def _segment(self, route: Route, name: str) -> str:
        rng = self._random
        if name == "number":
            return str(rng.choice([1, 2, 3, 2**31 - 1])) if rng.random() < 0.6 else self._encoded(self._number_text())
        if name == "name" and rng.random() < 0.5:
            return rng.choice(["url-shortener", "redis", "dashboard.js", "reads-database", "broken", "mounts-root"])
        if name == "study" and rng.random() < 0.6 and route.method != "DELETE" and not route.path.endswith("/finish"):
            return self._study(route.path)
        return self._encoded(self._path() if rng.random() < 0.6 else rng.choice(TEXTS))

    def _study(self, path: str) -> str:
        if path.endswith(("/stop", "/resume")):
            return self._random.choice([self._known.paused, self._known.tuned])
        if path.startswith("/v1/external"):
            return self._known.elsewhere if self._random.random() < 0.95 else self._known.tuned
        return self._random.choice([self._known.tuned, self._known.tuned, self._known.paused, self._known.streamed])

    def _path(self) -> str:
        return self._random.choice(self._paths)

    def _number_text(self) -> str:
        return str(self._random.choice([-1, 2**31, 2**63, 10**30, "1e5", "0x1", "١", "+1", " 1", "1_0", "/etc/passwd"]))

    def _value(self, name: str) -> str:
        rng = self._random
        if name in ("after", "limit") and rng.random() < 0.6:
            return self._number_text() if rng.random() < 0.5 else str(rng.randrange(1, 60))
        if name in ("first", "second") and rng.random() < 0.5:
            return rng.choice(
                [self._known.tuned, f"{self._known.tuned}:default", f"{self._known.paused}:{self._path()}"]
            )
        return self._path() if rng.random() < 0.5 else rng.choice(TEXTS)

    def _encoded(self, text: str) -> str:
        """Percent-encode as clients do, or twice, or partly, or not at all."""
        raw = text.encode("utf-8", "surrogatepass")
        ways: Sequence[Callable[[], str]] = (
            lambda: quote(raw, safe=""), lambda: quote(quote(raw, safe="")), lambda: quote(raw, safe="/."),
            lambda: "".join(f"%{byte:02x}" for byte in raw[:2_000]), lambda: text.encode("ascii", "ignore").decode(),
        )  # fmt: skip
        return self._random.choices(ways, (6, 1, 3, 1, 1))[0]()

    # ------------------------------------------------------------------ headers

    def _headers(self, body: bytes | None) -> list[tuple[bytes, bytes]]:
        rng = self._random
        headers = [(b"Content-Type", b"application/json")] if body is not None and rng.random() < 0.95 else []
        if rng.random() < 0.6:
            return headers
        hostile: Sequence[tuple[bytes, Sequence[bytes]]] = (
            (b"Host", (b"evil.example", b"localhost:1", b"127.0.0.1.evil", b"", b"[::1]", b"x@evil", b"\xff")),
            (b"Origin", (b"null", b"http://evil.example", b"http://127.0.0.1", b"file:///etc/passwd")),
            (b"Sec-Fetch-Site", (b"cross-site", b"same-origin", b"none", b"\x00")),
            (b"X-Forwarded-For", (b"10.0.0.1", b"127.0.0.1, evil", b"a" * 5_000, b"::1")),
            (b"X-Forwarded-Host", (b"evil.example",)),
            (b"X-Original-URL", (b"/etc/passwd",)),
            (b"Authorization", (b"Bearer x", b"Bearer " + b"a" * 9_000, b"Basic AAAA", b"Bearer \xff")),
            (b"Cookie", (b"tailor=x", b"tailor=" + b"a" * 9_000, b"\xff=\x00")),
            (b"Accept", (b"text/html", b"application/x-yaml", b"../../etc/passwd")),
            (b"Accept-Encoding", (b"gzip", b"br", b"identity;q=0")),
            (b"Content-Type", (b"text/plain", b"multipart/form-data; boundary=x", b"application/xml", b"\xff")),
            (b"Last-Event-ID", (b"1", b"-1", b"9" * 400, b"/etc/passwd", b"\xd9\xa1", b"NaN")),
            (b"Idempotency-Key", (b"k", b"k" * 129, self._passwd.encode(), b"\x7f", b"")),
            (b"Range", (b"bytes=0-1", b"bytes=-99999999999", b"bytes=" + b"0-1," * 500)),
            (b"If-None-Match", (b"*", b'"x"')),
            (b"If-Modified-Since", (b"Thu, 01 Jan 1970 00:00:00 GMT", b"\xff", b"9" * 50)),
            (b"Expect", (b"100-continue", b"x")),
            (b"Content-Length", (b"-1", b"0", b"9" * 30, b"1, 2", b"x")),
            (b"Transfer-Encoding", (b"gzip", b"identity")),
            (b"Upgrade", (b"websocket", b"h2c")),
            (b"User-Agent", (b"Mozilla/5.0", b"\x1b[2J")),
            (b"X" * 200, (b"y" * 60_000,)),
        )  # fmt: skip
        for name, values in rng.choices(hostile, k=rng.choice([1, 1, 2, 3])):
            headers.append((name, rng.choice(values)))
        return headers

    # ------------------------------------------------------------------ bodies

    def _body(self, route: Route) -> bytes:
        rng = self._random
        if rng.random() < 0.1:
            return rng.choice(RAW)
        body = self._good(route.path)
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            self._spoil(body)
        try:
            return json.dumps(body).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):  # a number of more digits than Python writes
            return b'{"client": ' + b"9" * 10_000 + b"}"

    def _good(self, path: str) -> dict[str, Any]:
        """Return a body that the route accepts; an acceptable launch is rare, because a worker runs it."""
        rng = self._random
        self._tokens += 1
        if path == "/v1/studies":
            body = {**JOB, "seed": rng.randrange(1, 5), "pairs": 0, "iterations": 1, "repetitions": 1}
            if rng.random() < 0.98:
                body.update(rng.choice(self._launches()))
            return body
        if path == "/v1/external":
            space = [dict(parameter) for parameter in PARAMETERS]
            return {"name": "mine", "parameters": space, "optimizer": "random", "budget": 5}
        if path.endswith("/ask"):
            return {"client": "a", "count": rng.choice([1, 2, 50]), "lease_s": 1.0}
        if path.endswith("/tell"):
            return {"results": [{"trial": rng.randrange(1, 50), "value": rng.random(), "reason": ""}]}
        if path.endswith("/heartbeat"):
            return {"client": "a", "trials": [1, 2]}
        return {}

    def _launches(self) -> Sequence[Mapping[str, Any]]:
        filled = asdict(self._known) | {
            "passwd": self._passwd,
            "results": self._passwd.replace("passwd", "results.json"),
        }
        filled["study"] = self._known.elsewhere
        path = self._path()
        return (
            {"reduce": self._random.choice(REDUCTIONS).format(**filled)},
            {"history": [path]}, {"history": [self._known.elsewhere]}, {"history": [self._passwd, "/dev/zero"]},
            {"initial": path}, {"bottlenecks": [path], "reduce": "bottlenecks"}, {"domains": path},
            {"domains": "9" * 1_000},
            {"application": path}, {"application": "url-shortener/../broken"}, {"application": "reads-database"},
            {"application": "mounts-root"}, {"application": "broken"}, {"optimizer": path}, {"testbed": path},
            {"options": {"a": path}}, {"options": {self._random.choice(ARGUMENTS): [path]}}, {"only": [path]},
            {"pin": [f"nginx={path}"]},
            {"apart": ["nginx:nginx", path]}, {"subject_to": [f"p95 <= {path}"]}, {"also": [path]}, {"profile": True},
            {"thresholds": {path: 1.0}}, {"limits": {"nginx": 1e308}}, {"placement": "only", "domains": "0-99999999"},
        )  # fmt: skip

    def _spoil(self, body: dict[str, Any]) -> None:
        """Replace a value somewhere in it, add one, or take one away."""
        rng = self._random
        at: Any = body
        while True:
            keys: list[Any] = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.7:
                at = at[key]
                continue
            if rng.random() < 0.1:
                del at[key]
            else:
                at[key] = self._anything()
            return
        if isinstance(at, dict):
            at[rng.choice(TEXTS)] = self._anything()

    def _anything(self) -> Any:
        rng = self._random
        kind = rng.randrange(7)
        if kind < 2:
            return rng.choice(NUMBERS)
        if kind < 4:
            return self._path()
        if kind == 4:
            return rng.choice(TEXTS)
        if kind == 5:
            return rng.choice(([], {}, [[]], [self._path()], {self._path(): self._path()}, [None] * 2_000, {"": ""}))
        deep: Any = 1
        for _ in range(rng.choice([5, 60, 300])):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        return deep
