"""Runs of the load generator and their spans, made from plain latencies, for tests of the evaluation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from framework.model import LoadResult, Usage
from framework.model.spans import SpanTable
from tests.span_tables import Row, span_table

STARTED_NS = 1_700_000_000_000_000_000


def run(
    latency_ms: ArrayLike,
    *,
    rate_rps: float = 200.0,
    warmup_s: float = 5.0,
    window_s: float = 20.0,
    lag_ms: float = 0.01,
) -> LoadResult:
    """One request every 1 / rate seconds, as many as there are latencies; an infinite latency is a failed request."""
    latency = np.asarray(latency_ms, dtype=np.float64)
    due = STARTED_NS + (np.arange(len(latency)) / rate_rps * 1e9).astype(np.int64)
    ok = np.isfinite(latency)
    took = np.where(ok, latency, 1.0) * 1e6
    start = STARTED_NS + round(warmup_s * 1e9)
    window = (due >= start) & (due < start + round(window_s * 1e9))
    return LoadResult(
        started_ns=STARTED_NS,
        warmup_s=warmup_s,
        window_s=window_s,
        classes=("read",),
        due_ns=due,
        sent_ns=due + int(lag_ms * 1e6),
        end_ns=due + took.astype(np.int64),
        request_class=np.zeros(len(due), dtype=np.uint8),
        status=np.where(ok, 200, 500).astype(np.int16),
        ok=ok,
        errors={"status 500": int((~ok & window).sum())} if (~ok & window).any() else {},
        spans_created=int(window.sum()),
        spans_exported=int(window.sum()),
        cpu_s=1.0,
        usage_before=usage(start),
        usage_after=usage(start + round(window_s * 1e9), busy_s=10.0),
    )


def usage(at_ns: int, *, busy_s: float = 0.0, stolen_s: float = 0.0) -> Usage:
    cpu = {"nginx": 1 + busy_s / 2, "post": 2 + busy_s / 4, "jaeger": busy_s / 8, "loadgen": busy_s / 8}
    return Usage(at_ns, cpu, busy_s, stolen_s, busy_s / 10, 2, busy_s / 100)


def stolen(load: LoadResult, seconds: float) -> LoadResult:
    assert load.usage_after is not None
    return replace(load, usage_after=replace(load.usage_after, stolen_s=seconds))


def spans_of_run(load: LoadResult, *, keep: float = 1.0, slower: float = 1.0, answered: float = 0.0) -> SpanTable:
    """The root spans of the window, the first ``keep`` of them, their durations times ``slower``.

    ``answered``: the share of them that have a span of the service post too.
    """
    start = load.started_ns + round(load.warmup_s * 1e9)
    inside = np.flatnonzero((load.due_ns >= start) & (load.due_ns < start + round(load.window_s * 1e9)))
    rows = []
    for number, index in enumerate(inside[: round(len(inside) * keep)]):
        begin, took = int(load.due_ns[index]), int((load.end_ns[index] - load.due_ns[index]) * slower)
        failed = not load.ok[index]
        rows.append(Row("loadgen", begin, begin + took, kind="client", error=failed, trace=number))
        if (number + 1) * answered // 1 > number * answered // 1:
            rows.append(Row("post", begin, begin + took, parent=len(rows) - 1, kind="server", trace=number))
    return span_table(rows)
