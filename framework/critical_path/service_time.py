"""A window's traces as its measurement keeps them: each service's part of the critical path and its service time."""

from __future__ import annotations

from collections.abc import Mapping

from framework.critical_path.charge import charged
from framework.critical_path.per_trace import per_trace
from framework.critical_path.profile import profiles
from framework.critical_path.skew import adjusted
from framework.model import ServiceTime
from framework.spans import SpanTable, no_spans


def compile_once() -> None:
    """Compile what windows are analysed with, or load it from numba's cache: seconds that no trial should pay for."""
    service_times(no_spans(), "")


def service_times(spans: SpanTable, entry: str, peers: Mapping[str, str] | None = None) -> tuple[ServiceTime, ...]:
    """The largest share of the critical path first.  ``entry``, ``peers``: as of ``charged``."""
    spans = adjusted(spans)
    return tuple(
        ServiceTime(one.name, one.spans, one.traces, one.share, one.path_ms, one.mean_ms, one.p95_ms, one.cv)
        for one in profiles(per_trace(spans, charged(spans, entry, peers)))
    )
