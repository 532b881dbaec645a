"""A window's traces as its measurement keeps them: each service's part of the critical path and its service time."""

from __future__ import annotations

import numpy as np

from framework.critical_path.charge import charged
from framework.critical_path.per_trace import per_trace
from framework.critical_path.profile import profiles
from framework.critical_path.skew import adjusted
from framework.model import ServiceTime
from framework.spans import SpanTable


def compile_once() -> None:
    """Compile what windows are analysed with, or load it from numba's cache: seconds that no trial should pay for."""
    one, none = np.zeros(1, dtype=np.int64), np.full(1, -1, dtype=np.int32)
    service_times(
        SpanTable(
            ("",), ("",), one.astype(np.int32), one.astype(np.uint64), one - 1, one.astype(np.bool_),
            one.astype(np.int32), one.astype(np.int32), none, none, none, one.astype(np.int8), one.astype(np.bool_),
            one, one + 1,
        ),
        "",
    )  # fmt: skip


def service_times(spans: SpanTable, entry: str) -> tuple[ServiceTime, ...]:
    """The largest share of the critical path first.  ``entry``: the service that clients call."""
    spans = adjusted(spans)
    return tuple(
        ServiceTime(one.name, one.spans, one.traces, one.share, one.path_ms, one.mean_ms, one.p95_ms, one.cv)
        for one in profiles(per_trace(spans, charged(spans, entry)))
    )
