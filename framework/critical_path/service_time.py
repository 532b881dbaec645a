"""A window's traces as its measurement keeps them: each service's part of the critical path and its service time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from framework.critical_path.attribution import Charges, charged
from framework.critical_path.breakdown import profiles
from framework.critical_path.per_trace import per_trace
from framework.critical_path.skew import adjusted
from framework.model import ServiceTime
from framework.model.spans import SpanTable, no_spans


def compile_once() -> None:
    """Compile what windows are analysed with, or load it from numba's cache: seconds that no trial should pay for."""
    service_times(no_spans(), "")


def service_times(spans: SpanTable, entry: str, peers: Mapping[str, str] | None = None) -> tuple[ServiceTime, ...]:
    """The largest share of the critical path first.  ``entry``, ``peers``: as of ``charged``."""
    spans = adjusted(spans)
    charges = charged(spans, entry, peers)
    depth = _depth_by_service(spans, charges)
    return tuple(
        ServiceTime(
            one.name, one.spans, one.traces, one.share, one.path_ms, one.mean_ms, one.p95_ms, one.cv, depth[one.name]
        )
        for one in profiles(per_trace(spans, charges))
    )  # fmt: skip


def _depth_by_service(spans: SpanTable, charges: Charges) -> dict[str, float]:
    """The mean number of spans above those that are charged to a service: 0 for the front end."""
    above = spans.parent.copy()
    depth = (above >= 0).astype(np.int64)
    while len(rows := np.flatnonzero(above >= 0)):  # twice as far up each time: deep traces take few rounds
        over = above[rows]
        depth[rows] += depth[over]
        above[rows] = above[over]
    count = np.bincount(charges.service, minlength=len(charges.names))
    total = np.bincount(charges.service, depth, minlength=len(charges.names))
    return {name: float(total[i] / count[i]) if count[i] else 0.0 for i, name in enumerate(charges.names)}
