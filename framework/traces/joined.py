"""Reader of a trace store that does not take the load generator's root spans: Zipkin, Tempo.

The generator kept the ids of its requests, so their traces are read one by one, by id, and each is joined to its root
here.  Of a window with many requests a sample is read; latencies are the generator's own, of all requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import httpx

from framework.errors import InputError, TracesMissing
from framework.model import Application, Running
from framework.model.application import TraceApi
from framework.model.spans import RootSpan, SpanTable
from framework.traces.columns import KIND, NONE, ROOT, SpanColumns
from framework.traces.settling import settled

ROOT_SERVICE = "loadgen"
"""The service of the root spans."""

PROBED = 100
"""Traces that are asked for again and again until no more spans arrive; then all are read once."""


class Store(Protocol):
    """API of a trace store."""

    def read(self, client: httpx.Client, url: str, roots: Sequence[RootSpan], columns: SpanColumns) -> None:
        """Add the traces of these roots to the columns, each with its root.  Raises TracesMissing, httpx.HTTPError.

        A trace that the store does not know becomes one that has a root only.
        """


class JoiningReader:
    """Reader of a store by trace ids; implements ``framework.ports.traces.JoiningReader``."""

    def __init__(
        self,
        application: Application,
        stores: Mapping[TraceApi, Store],
        *,
        sleep: Callable[[float], None] = time.sleep,
        now_ns: Callable[[], int] = time.time_ns,
        timeout_s: float = 30.0,
    ) -> None:
        if application.tracing is None:
            raise InputError(f"{application.name} has no tracing: there are no spans to read")
        self._tracing = application.tracing
        self._store = stores[application.tracing.api]
        self._sleep, self._now_ns = sleep, now_ns
        self._timeout_s = timeout_s
        self.rejected: Mapping[str, int] = {}
        """Reason -> number of traces of the last read that could not be used."""

    def created(self, running: Running) -> int | None:
        """Return that spans are not counted."""
        return None

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        """Raise TracesMissing: without the generator's root spans there is nothing to read by."""
        raise TracesMissing(
            f"{self._tracing.service} is read by the ids of the requests, and the load generator kept none; only "
            "Tailor's own generator does (load.generator: tailor)"
        )

    def join(self, running: Running, roots: Sequence[RootSpan]) -> SpanTable:
        """Read the traces of these roots, oldest first, each joined to its root.  Raises TracesMissing."""
        container = running.containers.get(self._tracing.service)
        if container is None:
            raise TracesMissing(f"{self._tracing.service}: no such container is running")
        if not roots:
            return SpanColumns().table()[0]
        url = f"http://{container.address}:{self._tracing.port}"
        probed = [*roots[:: max(1, 2 * len(roots) // PROBED)], *roots[-PROBED // 2 :]]
        probed = sorted({root.trace: root for root in probed}.values(), key=lambda root: root.start_ns)
        window_ns = (roots[0].start_ns, max(root.end_ns for root in roots))
        with httpx.Client(timeout=self._timeout_s) as client:
            spans = settled(
                lambda: self._read(client, url, probed),
                window_ns,
                self._tracing.export_delay_s,
                sleep=self._sleep,
                now_ns=self._now_ns,
            )
            return spans if len(probed) == len(roots) else self._read(client, url, roots)

    def _read(self, client: httpx.Client, url: str, roots: Sequence[RootSpan]) -> SpanTable:
        columns = SpanColumns()
        try:
            self._store.read(client, url, roots, columns)
        except httpx.HTTPError as error:
            raise TracesMissing(f"{self._tracing.service} does not answer at {url}: {error!r}") from error
        spans, self.rejected = columns.table()
        return spans


def add_root(columns: SpanColumns, root: RootSpan) -> None:
    """Add a root span as Jaeger would have it from the generator."""
    columns.trace.append(columns.number(root.trace))
    columns.span_id.append(root.span_id)
    columns.parent_id.append(ROOT)
    columns.follows.append(False)
    columns.service.append(columns.intern(ROOT_SERVICE))
    columns.operation.append(columns.intern(root.operation))
    columns.peer.append(NONE)
    columns.host.append(NONE)
    columns.address.append(NONE)
    columns.kind.append(KIND["client"])
    columns.error.append(root.error)
    columns.start_ns.append(root.start_ns)
    columns.end_ns.append(root.end_ns)


def answer_of(reply: httpx.Response) -> bytes | None:
    """Return the body of an answer; None where the store does not know the trace.  Raises TracesMissing."""
    if reply.status_code == 404:
        return None
    if reply.status_code != 200:
        raise TracesMissing(f"{reply.url} answers {reply.status_code}: {reply.text.strip()[:300]}")
    return reply.content
