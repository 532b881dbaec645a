"""The reader against small HTTP servers that answer as Jaeger's search and the services' counters do.

Real Jaeger is asked the same in tests/docker/test_traces_jaeger.py; here it can also misbehave.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import orjson
import pytest

from framework.errors import TracesMissing
from framework.model import Application, Container, Deployment, Objective, Running, Tracing, Workload
from framework.traces.jaeger import WAIT_S, JaegerReader
from optimizer.space import Configuration

BEGIN_US = 1_700_000_000_000_000
SECOND_US = 1_000_000

Answer = Callable[[str, str, dict[str, str]], tuple[int, bytes]]
"""(method, path, query) -> (status, body)"""


@contextmanager
def served(answer: Answer, host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """Serve HTTP on the loopback interface; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            status, body = answer(self.command, url.path, query)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name is the base class's

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer((host, port), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Search:
    """Jaeger's search over traces that start at ``starts`` (microseconds, two spans each)."""

    starts: list[int]
    max_traces: int = 100_000
    arriving: list[int] = field(default_factory=list)
    """Number of traces that have arrived at the 1st, 2nd, ... reading; empty: all."""
    asked: list[dict[str, str]] = field(default_factory=list)

    def __call__(self, method: str, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        assert (method, path, query["service"]) == ("GET", "/api/traces", "loadgen")
        self.asked.append(query)
        start, end, limit = int(query["start"]), int(query["end"]), int(query["limit"])
        if not 0 < limit <= self.max_traces:
            reason = "search depth must be greater than 0 and less than max traces"
            return 500, orjson.dumps({"data": None, "errors": [{"code": 500, "msg": reason}]})
        reading = sum(int(asked["start"]) == BEGIN_US for asked in self.asked) - 1
        arrived = len(self.starts) if not self.arriving else self.arriving[min(reading, len(self.arriving) - 1)]
        known = enumerate(self.starts[:arrived])
        traces = [trace(number, at) for number, at in known if start <= at <= end]
        return 200, orjson.dumps({"data": traces[::-1][:limit], "total": 0, "limit": 0})


def trace(number: int, at: int) -> dict[str, Any]:
    identity = f"{number + 1:x}"
    root = {"spanID": "1", "references": [], "processID": "p1"}
    child = {"spanID": "2", "processID": "p2"} | {
        "references": [{"refType": "CHILD_OF", "traceID": identity, "spanID": "1"}]
    }
    common = {"operationName": "read", "startTime": at, "duration": 100, "tags": []}
    processes = {"p1": {"serviceName": "loadgen"}, "p2": {"serviceName": "post"}}
    return {"traceID": identity, "processes": processes, "spans": [root | common, child | common]}


def application(port: int, counters: dict[str, Any] | None = None) -> Application:
    tracing = Tracing("jaeger", port=port, counters=counters or {})
    workload = Workload(1.0, "constant", "http://nginx", {})
    return Application("pretend", Path("apps/pretend"), {}, (), (), workload, tracing, Objective())


def running(**addresses: str) -> Running:
    containers = {
        name: Container(name, "id", name, "image", "sha256:0", address, 1, "now")
        for name, address in {"jaeger": "127.0.0.1", **addresses}.items()
    }
    return Running(Deployment("pretend", "p", Configuration({}), {}, {}), "network", containers)


def read(search: Search, expected: int | None, *, limit: int = 50, seconds: int = 10) -> tuple[Any, list[float]]:
    slept: list[float] = []
    with served(search) as port:
        reader = JaegerReader(application(port), limit=limit, sleep=slept.append)
        spans = reader.read(running(), BEGIN_US * 1000, (BEGIN_US + seconds * SECOND_US) * 1000, expected)
    return spans, slept


def uneven(count: int) -> list[int]:
    """Start times over ten seconds, most of them in a tenth of a second."""
    rng = np.random.default_rng(1)
    crowd = rng.integers(3 * SECOND_US, 3 * SECOND_US + SECOND_US // 10, count * 3 // 4)
    rest = rng.integers(0, 10 * SECOND_US, count - len(crowd))
    return [BEGIN_US + int(at) for at in np.concatenate([crowd, rest])]


def test_all_traces_come_though_each_answer_is_cut_short() -> None:
    search = Search(uneven(2000))
    spans, slept = read(search, 4000)
    assert (len(spans), len(spans.traces)) == (4000, 2000)
    assert len(set(spans.traces)) == 2000
    assert slept == []
    assert {query["limit"] for query in search.asked} == {"50"}


def test_slices_leave_no_gap() -> None:
    search = Search([])
    read(search, 0, seconds=100)
    edges = [(int(query["start"]), int(query["end"])) for query in search.asked]
    assert edges[0][0] == BEGIN_US
    assert edges[-1][1] == BEGIN_US + 100 * SECOND_US
    assert all(before[1] == after[0] for before, after in itertools.pairwise(edges))
    # Empty slices double: a hundred seconds take seven questions, not a hundred.
    assert len(edges) == 7


def test_only_roots_in_the_window_count() -> None:
    before, first, last, after = -1, 0, 10 * SECOND_US - 1, 10 * SECOND_US
    spans, _ = read(Search([BEGIN_US + at for at in (before, first, last, after)]), 4)
    assert ((spans.start_ns // 1000 - BEGIN_US).tolist()) == [first, first, last, last]
    assert spans.parent.tolist() == [-1, 0, -1, 2]


def test_a_limit_above_the_store_s_is_halved() -> None:
    search = Search(uneven(300), max_traces=20)
    spans, _ = read(search, 600)
    assert len(spans.traces) == 300
    assert [query["limit"] for query in search.asked][:3] == ["50", "25", "12"]


def test_spans_on_their_way_are_waited_for() -> None:
    spans, slept = read(Search(uneven(40), arriving=[10, 10, 25, 40]), 80)
    assert len(spans) == 80
    assert slept == [WAIT_S] * 3


def test_spans_that_never_come_are_not_waited_for_for_ever() -> None:
    spans, slept = read(Search(uneven(40), arriving=[10, 25]), 80)
    assert len(spans) == 50
    # Three readings alike end it: the second, third and fourth.
    assert slept == [WAIT_S] * 3
    growing = Search(uneven(40), arriving=list(range(40)))
    spans, slept = read(growing, 80)
    assert len(slept) == 19


def read_uncounted(search: Search, seconds: int) -> tuple[Any, float]:
    """Read without counters from half a second after the window's end; return the spans and the seconds it took."""
    end_ns = (BEGIN_US + seconds * SECOND_US) * 1000
    now_ns = [end_ns + 500_000_000]

    def sleep(pause_s: float) -> None:
        now_ns[0] += int(pause_s * 1e9)

    with served(search) as port:
        reader = JaegerReader(application(port), limit=50, sleep=sleep, now_ns=lambda: now_ns[0])
        spans = reader.read(running(), BEGIN_US * 1000, end_ns, None)
    return spans, (now_ns[0] - end_ns) / 1e9


def test_without_counters_exporters_get_five_seconds_from_the_window_s_end() -> None:
    # All lie in the last three seconds: nothing shows that spans so young have been sent.
    spans, took_s = read_uncounted(Search([BEGIN_US + at for at in range(0, 3 * SECOND_US, SECOND_US)]), 3)
    assert len(spans) == 6
    assert took_s == pytest.approx(5.25)


def test_without_counters_requests_that_are_all_alike_end_the_wait() -> None:
    spans, took_s = read_uncounted(Search(uneven(40)), 10)
    assert len(spans) == 80
    assert took_s == pytest.approx(0.5 + 2 * WAIT_S)


def test_traces_that_start_in_one_microsecond_cannot_be_paged() -> None:
    with pytest.raises(TracesMissing, match="one microsecond"):
        read(Search([BEGIN_US + 5] * 60), 120)


def test_rejected_traces_are_counted_and_their_spans_missing() -> None:
    def answer(method: str, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        broken = trace(1, BEGIN_US) | {"processes": {}}
        return 200, orjson.dumps({"data": [trace(0, BEGIN_US), broken, None]})

    with served(answer) as port:
        reader = JaegerReader(application(port), sleep=lambda _: None)
        spans = reader.read(running(), BEGIN_US * 1000, (BEGIN_US + SECOND_US) * 1000, 4)
    assert len(spans) == 2
    assert reader.rejected == {"malformed field": 2}


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (500, b"storage is on fire", "500.*on fire"),
        (404, b"", "404"),
        (200, b"<html>", "no Jaeger JSON"),
        (200, b"{}", 'with a list under "data"'),
    ],
)
def test_a_jaeger_that_does_not_answer_as_jaeger(status: int, body: bytes, text: str) -> None:
    with served(lambda *_: (status, body)) as port, pytest.raises(TracesMissing, match=text):
        JaegerReader(application(port)).read(running(), 0, 10**9, 1)


def test_no_jaeger() -> None:
    with served(lambda *_: (200, b"")) as port:
        pass  # nothing listens at the port any more
    reader = JaegerReader(application(port))
    with pytest.raises(TracesMissing, match="does not answer"):
        reader.read(running(), 0, 10**9, 1)
    gone = Running(Deployment("pretend", "p", Configuration({}), {}, {}), "network", {})
    with pytest.raises(TracesMissing, match="no such container"):
        reader.read(gone, 0, 10**9, 1)


# --------------------------------------------------------------------------- counters


@dataclass
class Counters:
    """A service that exports ``per_flush`` spans each time it is told to."""

    created: int
    per_flush: int = 10**9
    exported: int = 0
    flushes: int = 0

    def __call__(self, method: str, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        if (method, path) == ("POST", "/flush"):
            self.flushes += 1
            self.exported = min(self.created, self.exported + self.per_flush)
        else:
            assert (method, path) == ("GET", "/spans")
        return 200, orjson.dumps(
            {"created": {"w": 7, "m": self.created}, "exported": {"w": 7, "m": self.exported}, "failed": 0}
        )


def created(services: dict[str, Answer], counted: tuple[str, ...] = ()) -> tuple[int | None, list[float]]:
    """Each service on a loopback address of its own, all at one port, and a store where nothing listens."""
    slept: list[float] = []
    addresses = {name: f"127.0.0.{number}" for number, name in enumerate(services, start=2)}
    with ExitStack() as stack:
        port = 0
        for name, answer in services.items():
            port = stack.enter_context(served(answer, addresses[name], port))
        reader = JaegerReader(application(1, {"port": port, "path": "/spans"}), counted=counted, sleep=slept.append)
        return reader.created(running(**addresses, memcached="127.0.0.99")), slept


def test_created_is_the_sum_over_the_window_after_a_flush() -> None:
    services = {"post": Counters(100), "user": Counters(23)}
    assert created(dict(services)) == (123, [])
    assert services["post"].flushes == 1


def test_exporters_are_flushed_until_all_is_out() -> None:
    slow = Counters(100, per_flush=40)
    quick = Counters(5)
    assert created({"slow": slow, "quick": quick}) == (105, [WAIT_S] * 2)
    assert (slow.flushes, quick.flushes) == (3, 1)


def test_spans_that_were_dropped_are_still_counted() -> None:
    count, slept = created({"post": Counters(100, per_flush=0)})
    assert count == 100
    assert len(slept) == 19


def test_an_application_without_counters_tells_nothing() -> None:
    assert JaegerReader(application(1)).created(running()) is None


def test_no_service_that_counts() -> None:
    with pytest.raises(TracesMissing, match="no service answers"):
        JaegerReader(application(1, {"port": 9, "path": "/spans"})).created(running(post="127.0.0.98"))


def test_a_named_service_that_does_not_answer() -> None:
    with pytest.raises(TracesMissing, match="memcached: no answer"):
        created({"post": Counters(1)}, counted=("post", "memcached"))


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (502, b"flush: connection refused", "could not export its spans: 502 flush"),
        (200, b"{}", "lack"),
        (200, b"no", "lack"),
    ],
)
def test_counters_that_cannot_be_used(status: int, body: bytes, text: str) -> None:
    with pytest.raises(TracesMissing, match=text):
        created({"post": lambda *_: (status, body)})
