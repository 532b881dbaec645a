"""Waiting until all spans of a window have arrived where nothing counts them.

Exporters hold spans back, OpenTelemetry's for 5 s by default, so that an equal count now and a second ago proves
nothing.  Spans are waited for until that time has passed since the last request ended.  Sooner only where every request
of a kind has the same number of spans of each service: an exporter that still held spans back would show in the last
requests of the window, since it sends spans in the order of their ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from framework.model.spans import SpanTable

PAUSE_S = 0.25
MARGIN_S = 0.25
"""Time from an exporter's sending to the answer of a search: stores take spans in batches of up to 0.2 s."""

TRIES = 20
"""Number of searches after the time for which spans may be held back."""

UNCHANGED = 3
"""Searches in a row with an equal count after which no more spans are expected to arrive."""


def settled(
    search: Callable[[], SpanTable],
    window_ns: tuple[int, int],
    export_delay_s: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now_ns: Callable[[], int] = time.time_ns,
    pause_s: float = PAUSE_S,
) -> SpanTable:
    """Search until no more spans can be held back and none arrive, and return the last answer.

    ``window_ns``: when the first and the last request could be due.  ``export_delay_s``: how long exporters may
    hold spans back.  ``now_ns`` is on the clock of the spans.
    """
    counts: list[int] = []
    late = 0
    while True:
        asked_ns = now_ns()
        spans = search()
        counts.append(len(spans))
        last_ns = max(window_ns[1], int(spans.end_ns.max())) if len(spans) else window_ns[1]
        due_ns = last_ns + int((export_delay_s + MARGIN_S) * 1e9)
        unchanged = counts[-UNCHANGED:] == [len(spans)] * UNCHANGED
        if asked_ns >= due_ns:
            late += 1
            if unchanged or late == TRIES:
                return spans
        elif unchanged and complete(spans, window_ns, export_delay_s):
            return spans
        sleep(pause_s)


def complete(spans: SpanTable, window_ns: tuple[int, int], export_delay_s: float) -> bool:
    """Return whether the spans themselves show that no exporter holds any back.

    In each kind of requests, every request must have as many spans of each service as the others, and some of them must
    have ended so long before the window's end that their spans were sent.
    """
    if not len(spans):
        return False
    roots = np.flatnonzero(spans.parent == -1)
    kinds = np.zeros(len(spans.traces), np.int64)
    kinds[spans.trace[roots]] = spans.operation[roots]
    ends = np.zeros(len(spans.traces), np.int64)
    np.maximum.at(ends, spans.trace, spans.end_ns)
    counts = np.zeros((len(spans.traces), len(spans.strings)), np.int32)
    np.add.at(counts, (spans.trace, spans.service), 1)
    if not ((counts > 0).sum(axis=1) > 1).any():
        return False  # only the generator's own: services may have sent nothing yet
    for kind in np.unique(kinds):
        rows = kinds == kind
        if (counts[rows] != counts[rows][0]).any() or ends[rows].min() > window_ns[1] - export_delay_s * 1e9:
            return False
    return True
