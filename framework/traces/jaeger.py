"""Reader of all spans of a measured window, from Jaeger over HTTP.

Jaeger's search returns the newest N traces and has no next page, so the window is cut into slices of time, and a slice
that comes back full is halved.  Slices share their edges: Jaeger compares nanoseconds with a query in microseconds,
both ends included.
Exporters' queues drop spans silently when they are full, so the services' own counters tell how many spans to expect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np

from framework.errors import InputError, TracesMissing
from framework.model import Application, Running
from framework.model.spans import SpanTable, only_traces
from framework.traces.columns import SpanColumns
from framework.traces.jaeger_json import read_into
from framework.traces.settling import PAUSE_S, TRIES, UNCHANGED, settled

ROOT_SERVICE = "loadgen"
"""The service of the root span of every request: the load generator."""

SLICE_US = 1_000_000
"""The first slice; later ones are halved or doubled so that they come back between a quarter full and full."""

LIMIT = 1000
"""Traces asked for at once: about 8 MB of JSON.  Jaeger refuses more than its store can hold (max_traces)."""

WAIT_S = PAUSE_S
"""Pause between two of at most 20 attempts to read counters and spans: five seconds in all."""


class JaegerReader:
    """Reader of Jaeger's query API; implements ``framework.ports.traces.TraceReader``.

    ``counted``: the services that report how many spans they created.  Empty: every container of the application that
    answers at the counters' port; caches and databases refuse the connection and are left out.
    """

    def __init__(
        self,
        application: Application,
        *,
        counted: Sequence[str] = (),
        limit: int = LIMIT,
        sleep: Callable[[float], None] = time.sleep,
        now_ns: Callable[[], int] = time.time_ns,
        timeout_s: float = 30.0,
    ) -> None:
        if application.tracing is None:
            raise InputError(f"{application.name} has no tracing: there are no spans to read")
        self._tracing = application.tracing
        self._counted = tuple(counted)
        self._limit = limit
        self._sleep = sleep
        self._now_ns = now_ns
        self._timeout_s = timeout_s
        self.rejected: Mapping[str, int] = {}
        """Reason -> number of traces of the last read that could not be used; their spans count as missing."""

    # ------------------------------------------------------------------ counters

    def created(self, running: Running) -> int | None:
        """Flush the services' exporters and return the number of spans created so far; None: not counted.

        A service that has not exported all its spans after five seconds has lost the rest, which the count shows.
        Raises TracesMissing when no service answers, or one of ``counted`` does not.
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
                counts |= {name: answer for name, answer in zip(pending, answers, strict=True) if answer is not None}
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
        return sum(_created(counters) for counters in counts.values())

    def _flush(self, client: httpx.Client, running: Running, name: str) -> Mapping[str, Any] | None:
        """Make one service export its queued spans, and return its counters; None when nothing listens there."""
        url = f"http://{running.containers[name].address}:{self._tracing.counters['port']}"
        try:
            reply = client.post(f"{url}/flush")
            reply.raise_for_status()
            reply = client.get(f"{url}{self._tracing.counters['path']}")
            reply.raise_for_status()
            counters: Mapping[str, Any] = reply.json()
            _created(counters), _exported(counters)
        except httpx.ConnectError:
            return None
        except httpx.HTTPStatusError as error:
            text = error.response.text.strip()[:300]
            raise TracesMissing(f"{name} could not export its spans: {error.response.status_code} {text}") from error
        except httpx.HTTPError as error:
            raise TracesMissing(f"{name}: its span counters cannot be read: {error!r}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise TracesMissing(f'{name}: its span counters lack {{"created": {{"m": ..}}}}: {error!r}') from error
        return counters

    # ------------------------------------------------------------------ spans

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        """Read all spans of traces whose root starts in [start_ns, end_ns), to the microsecond as in Jaeger's JSON.

        Asks again until ``expected`` spans have arrived or no more arrive, at most 20 times; the caller judges missing
        spans.  Where they are not counted, it waits for as long as exporters may hold them back (``settling``).
        Raises TracesMissing when Jaeger does not answer, or not with its JSON.
        """
        container = running.containers.get(self._tracing.service)
        if container is None:
            raise TracesMissing(f"{self._tracing.service}: no such container is running")
        url = f"http://{container.address}:{self._tracing.port}/api/traces"
        counts: list[int] = []
        with httpx.Client(timeout=self._timeout_s) as client:

            def search() -> SpanTable:
                spans, self.rejected = self._search(client, url, start_ns // 1000, end_ns // 1000)
                return spans

            if expected is None:
                export_delay_s = self._tracing.export_delay_s
                return settled(search, (start_ns, end_ns), export_delay_s, sleep=self._sleep, now_ns=self._now_ns)
            while True:
                spans = search()
                counts.append(len(spans))
                if len(spans) >= expected or len(counts) == TRIES or counts[-UNCHANGED:] == [len(spans)] * UNCHANGED:
                    return spans
                self._sleep(WAIT_S)

    def _search(
        self, client: httpx.Client, url: str, start_us: int, end_us: int
    ) -> tuple[SpanTable, Mapping[str, int]]:
        """Read all traces with a root in [start_us, end_us); returns their spans, and reason -> rejected traces."""
        columns, seen = SpanColumns(), set[str]()
        limit, at, length = self._limit, start_us, SLICE_US
        while at < end_us:
            until = min(at + length, end_us)
            reply = self._slice(client, url, at, until, limit)
            if reply is None:  # more traces than the store can hold
                limit //= 2
                continue
            traces = read_into(columns, reply, seen)
            if traces >= limit:
                if length <= 1:
                    raise TracesMissing(f"{limit} or more traces start in one microsecond ({at}): they cannot be paged")
                length = max(1, min(length, until - at) // 2)
                continue
            at = until
            if traces < limit // 4:
                length *= 2
        return _starting_in(columns, start_us, end_us)

    def _slice(self, client: httpx.Client, url: str, start_us: int, end_us: int, limit: int) -> bytes | None:
        """Ask for up to ``limit`` traces with a root in [start_us, end_us], as JSON; None when Jaeger refuses it."""
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
    """Drop the traces whose root starts outside the window: the last slice includes the window's end."""
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
