"""Service times of a window, as its measurement stores them: each service's share of the path and its service time."""

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
    """Compile the analysis of windows, or load it from numba's cache: this takes seconds outside of any trial."""
    service_times(no_spans(), "")


def service_times(spans: SpanTable, entry: str, peers: Mapping[str, str] | None = None) -> tuple[ServiceTime, ...]:
    """Return service times, the largest share of the path first.  ``entry``, ``peers``: as for ``charged``."""
    spans = adjusted(spans)
    charges = charged(spans, entry, peers)
    depth = _depth_by_service(spans, charges)
    return tuple(
        ServiceTime(
            row.name, row.spans, row.traces, row.share, row.path_ms, row.mean_ms, row.p95_ms, row.cv, depth[row.name]
        )
        for row in profiles(per_trace(spans, charges))
    )  # fmt: skip


def _depth_by_service(spans: SpanTable, charges: Charges) -> dict[str, float]:
    """Return service -> the mean number of spans above those charged to it; 0 for the front end."""
    above = spans.parent.copy()
    depth = (above >= 0).astype(np.int64)
    while len(rows := np.flatnonzero(above >= 0)):  # pointer doubling: deep traces take few rounds
        over = above[rows]
        depth[rows] += depth[over]
        above[rows] = above[over]
    count = np.bincount(charges.service, minlength=len(charges.names))
    total = np.bincount(charges.service, depth, minlength=len(charges.names))
    return {name: float(total[i] / count[i]) if count[i] else 0.0 for i, name in enumerate(charges.names)}
