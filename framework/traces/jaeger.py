"""Reads the spans of a measured window from Jaeger over HTTP, all of them.

Jaeger's search gives the newest N traces and no way to ask for the next page, so the window is cut into slices of
time, and a slice that comes back full is halved.  Slices share their edges: Jaeger compares nanoseconds with a query
in microseconds, both ends included.
Spans travel through the exporters' queues, which drop silently when they are full, so the services' own counters say
how many there should be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np

from framework.errors import TracesMissing
from framework.model import Application, Running
from framework.model.spans import SpanTable, only_traces
from framework.traces.columns import SpanColumns
from framework.traces.jaeger_json import read_into

ROOT_SERVICE = "loadgen"
"""The service of the root span of every request: the load generator."""

SLICE_US = 1_000_000
"""The first slice; later ones are halved or doubled to come back between a quarter full and full."""

LIMIT = 1000
"""Traces asked for at once: about 8 MB of JSON.  Jaeger refuses more than its store can hold (max_traces)."""

TRIES = 20
WAIT_S = 0.25
"""How often and how far apart counters and spans are asked again: five seconds in all."""

UNCHANGED = 3
"""Readings in a row with the same count after which nothing is taken to be on its way any more."""

SETTLE_S = 5.0
"""Waited where no counters tell what to expect: OpenTelemetry's exporters hold spans back for that long by default."""


class JaegerReader:
    """``framework.ports.traces.TraceReader`` for Jaeger's query API.

    ``counted``: the services that tell how many spans they made.  Empty, it is every container of the application
    that answers at the counters' port; caches and databases refuse the connection and are left out.
    """

    def __init__(
        self,
        application: Application,
        *,
        counted: Sequence[str] = (),
        limit: int = LIMIT,
        sleep: Callable[[float], None] = time.sleep,
        timeout_s: float = 30.0,
    ) -> None:
        self._tracing = application.tracing
        self._counted = tuple(counted)
        self._limit = limit
        self._sleep = sleep
        self._timeout_s = timeout_s
        self.rejected: Mapping[str, int] = {}
        """Traces of the last read that could not be used, by reason; their spans are among the missing."""

    # ------------------------------------------------------------------ what should be there

    def created(self, running: Running) -> int | None:
        """Spans that the services created in the window, after their exporters are flushed; None: not counted.

        A service that still has not exported all it created after five seconds has lost the rest: the count tells.
        Raises TracesMissing when no service, or not each of those named, answers.
        """
        if not self._tracing.counters:
            return None
        names = self._counted or tuple(name for name in running.containers if name != self._tracing.service)
        counts: dict[str, Mapping[str, Any]] = {}
        with httpx.Client(timeout=self._timeout_s) as client, ThreadPoolExecutor(8) as pool:
            pending: Sequence[str] = names
            for attempt in range(TRIES):
                if attempt:
                    self._sleep(WAIT_S)
                answers = pool.map(lambda name: self._flush(client, running, name), pending)
                counts |= {name: found for name, found in zip(pending, answers, strict=True) if found is not None}
                pending = [name for name in counts if _exported(counts[name]) < _created(counts[name])]
                if not pending:
                    break
        silent = [name for name in self._counted if name not in counts]
        if silent or not counts:
            raise TracesMissing(
                f"no service answers at the span counters' port {self._tracing.counters['port']}"
                if not silent
                else f"{', '.join(silent)}: no answer at the span counters' port {self._tracing.counters['port']}"
            )
        return sum(_created(found) for found in counts.values())

    def _flush(self, client: httpx.Client, running: Running, name: str) -> Mapping[str, Any] | None:
        """Have one service export what it holds, and return its counters; None when nothing listens there."""
        url = f"http://{running.containers[name].address}:{self._tracing.counters['port']}"
        try:
            reply = client.post(f"{url}/flush")
            reply.raise_for_status()
            reply = client.get(f"{url}{self._tracing.counters['path']}")
            reply.raise_for_status()
            found: Mapping[str, Any] = reply.json()
            _created(found), _exported(found)
        except httpx.ConnectError:
            return None
        except httpx.HTTPStatusError as error:
            text = error.response.text.strip()[:300]
            raise TracesMissing(f"{name} could not export its spans: {error.response.status_code} {text}") from error
        except httpx.HTTPError as error:
            raise TracesMissing(f"{name}: its span counters cannot be read: {error!r}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise TracesMissing(f'{name}: its span counters lack {{"created": {{"m": ..}}}}: {error!r}') from error
        return found

    # ------------------------------------------------------------------ what is there

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        """All spans of traces whose root starts in [start_ns, end_ns), to the microsecond that Jaeger's JSON tells.

        Asks again until ``expected`` spans have arrived or none arrive any more, at most 20 times; spans that stay
        missing are not this method's to judge.  Raises TracesMissing when Jaeger does not answer as Jaeger does.
        """
        container = running.containers.get(self._tracing.service)
        if container is None:
            raise TracesMissing(f"{self._tracing.service}: no such container is running")
        url = f"http://{container.address}:{self._tracing.port}/api/traces"
        if expected is None:
            self._sleep(SETTLE_S)
        counts: list[int] = []
        with httpx.Client(timeout=self._timeout_s) as client:
            while True:
                spans, self.rejected = self._search(client, url, start_ns // 1000, end_ns // 1000)
                counts.append(len(spans))
                if expected is not None and len(spans) >= expected:
                    return spans
                if len(counts) == TRIES or counts[-UNCHANGED:] == [len(spans)] * UNCHANGED:
                    return spans
                self._sleep(WAIT_S)

    def _search(
        self, client: httpx.Client, url: str, start_us: int, end_us: int
    ) -> tuple[SpanTable, Mapping[str, int]]:
        """Every trace with a root in [start_us, end_us), once."""
        columns, seen = SpanColumns(), set[str]()
        limit, at, length = self._limit, start_us, SLICE_US
        while at < end_us:
            upto = min(at + length, end_us)
            reply = self._slice(client, url, at, upto, limit)
            if reply is None:  # more than the store can hold
                limit //= 2
                continue
            traces = read_into(columns, reply, seen)
            if traces >= limit:
                if length <= 1:
                    raise TracesMissing(f"{limit} or more traces start in one microsecond ({at}): they cannot be paged")
                length = max(1, min(length, upto - at) // 2)
                continue
            at = upto
            if traces < limit // 4:
                length *= 2
        return _starting_in(columns, start_us, end_us)

    def _slice(self, client: httpx.Client, url: str, start_us: int, end_us: int, limit: int) -> bytes | None:
        """At most ``limit`` traces with a root in [start_us, end_us], as JSON; None when Jaeger refuses that limit."""
        query: dict[str, str | int] = {"service": ROOT_SERVICE, "start": start_us, "end": end_us, "limit": limit}
        try:
            reply = client.get(url, params=query)
        except httpx.HTTPError as error:
            raise TracesMissing(f"{self._tracing.service} does not answer at {url}: {error!r}") from error
        if reply.status_code == 500 and "search depth" in reply.text and limit > 1:
            return None
        if reply.status_code != 200:
            raise TracesMissing(
                f"{self._tracing.service} answers {reply.status_code} at {url}: {reply.text.strip()[:300]}"
            )
        return reply.content


def _starting_in(columns: SpanColumns, start_us: int, end_us: int) -> tuple[SpanTable, Mapping[str, int]]:
    """Without the traces whose root starts outside: the slices' shared edges include the window's end."""
    spans, rejected = columns.table()
    root = np.flatnonzero(spans.parent == -1)
    starts = spans.start_ns[root] // 1000
    inside = np.zeros(len(spans.traces), dtype=np.bool_)
    inside[spans.trace[root]] = (starts >= start_us) & (starts < end_us)
    return only_traces(spans, inside), rejected


def _created(counts: Mapping[str, Any]) -> int:
    return int(counts["created"]["m"])


def _exported(counts: Mapping[str, Any]) -> int:
    return int(counts["exported"]["m"])
