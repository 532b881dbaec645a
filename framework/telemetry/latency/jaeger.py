"""Tail latencies of the root spans of a service, by the query API of Jaeger.

Services hold spans back before they export them, OpenTelemetry's for five seconds by default, and Jaeger cannot say
whether all have come.  So the window looked at ended ``lag`` seconds ago: what a guard does here is late by that and by
the window's length, and spans that come later still are not counted.  A search answers with a bounded number of traces,
the newest ones; where there were more, quantile and rate are those of the time that these cover.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from framework.errors import FieldError, Transient
from framework.telemetry.latency.histogram import exact_quantile
from framework.telemetry.latency.pages import Pages, split_address
from framework.telemetry.latency.registry import SOURCES
from framework.telemetry.latency.source import IDLE, Place, Source

WINDOW_S, LAG_S, LIMIT = 5.0, 6.0, 500
LONGEST_LAG_S, MOST_TRACES = 600.0, 1500
LEAST_PERIOD_S, STEPS = 0.5, 5
EXAMPLE = "http://127.0.0.1:16686#frontend"


T = TypeVar("T")


class _Reference(msgspec.Struct):
    trace: str = msgspec.field(name="traceID")


class _Span(msgspec.Struct):
    trace: str = msgspec.field(name="traceID")
    process: str = msgspec.field(name="processID")
    start_us: int = msgspec.field(name="startTime")
    duration_us: int = msgspec.field(name="duration")
    references: list[_Reference] | None = None


class _Process(msgspec.Struct):
    service: str = msgspec.field(name="serviceName")


class _Trace(msgspec.Struct):
    spans: list[_Span]
    processes: dict[str, _Process]


class _Traces(msgspec.Struct):
    data: list[_Trace] | None


class _Services(msgspec.Struct):
    data: list[str] | None


class JaegerSource:
    """Implements ``framework.telemetry.latency.source.Source``.  ``lag_s``: how long ago its window ended.

    ``limit``: most traces of an answer.  ``now_ns``: time since the Unix epoch, to which spans are compared.
    """

    def __init__(
        self, pages: Pages, service: str, quantile: float, window_s: float = WINDOW_S, lag_s: float = LAG_S,
        limit: int = LIMIT, now_ns: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        self.window_s, self.period_s = window_s, max(LEAST_PERIOD_S, window_s / STEPS)
        self._pages, self._service, self._quantile = pages, service, quantile
        self._lag_s, self._limit, self._now_ns = lag_s, limit, now_ns

    def begin(self, now_s: float) -> Mapping[str, float]:
        """Check that Jaeger knows the service, and look."""
        try:
            services = self._decoded(self._pages.get("/api/services"), _Services).data or []
            if self._service in services:
                return self.look(now_s)
        except Transient as error:
            raise FieldError("latency", str(error), f"a Jaeger that answers, such as {EXAMPLE}") from error
        known = ", ".join(sorted(services)) or "none"
        raise FieldError("latency", self._service, f"a service that {self._pages.shown} has spans of: {known}")

    def look(self, now_s: float) -> Mapping[str, float]:
        """Return the readings of the roots that started in the window."""
        end_us = self._now_ns() // 1000 - round(self._lag_s * 1e6)
        start_us = end_us - round(self.window_s * 1e6)
        query = {"service": self._service, "start": f"{start_us}", "end": f"{end_us}", "limit": f"{self._limit}"}
        traces = self._decoded(self._pages.get("/api/traces", query), _Traces).data or []
        if not traces:
            return IDLE
        roots = [span for trace in traces for span in trace.spans if self._is_root(trace, span)]
        if not roots:
            raise Transient(
                f"{self._pages.shown}: none of {len(traces)} traces of {self._service} begins with a span of it; name "
                "the service that has the first span"
            )
        inside = [root for root in roots if start_us <= root.start_us < end_us]  # a later span may be in the window
        if not inside:
            return IDLE
        if len(traces) >= self._limit:
            start_us = min(root.start_us for root in inside)
        latency_ms = exact_quantile(self._quantile, [root.duration_us / 1e3 for root in inside])
        return {"latency_ms": latency_ms, "rate_rps": len(inside) * 1e6 / max(1, end_us - start_us)}

    def close(self) -> None:
        """Close the connections."""
        self._pages.close()

    def _is_root(self, trace: _Trace, span: _Span) -> bool:
        process = trace.processes.get(span.process)
        parents = [reference for reference in span.references or () if reference.trace == span.trace]
        return process is not None and process.service == self._service and not parents

    def _decoded(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Transient(f"{self._pages.shown}: this is not an answer of Jaeger's query API: {error}") from error


@SOURCES.register("jaeger")
def jaeger(place: Place) -> Source:
    """Return the source of ``URL#SERVICE``; options: window [s], lag [s], limit (traces).  Raises FieldError."""
    place.allow(("window", "lag", "limit"))
    address, service = split_address(place.text, "a service's name")
    window_s, lag_s = place.window_s(WINDOW_S), place.number("lag", LAG_S, 0.0, LONGEST_LAG_S)
    limit = int(place.number("limit", LIMIT, 1, MOST_TRACES))
    return JaegerSource(Pages(address, "Jaeger"), service, place.quantile, window_s, lag_s, limit)
