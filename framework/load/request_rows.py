"""The requests that a load generator of somebody else reported, as columns that grow row by row."""

from __future__ import annotations

from array import array
from collections import Counter

import numpy as np

from framework.errors import LoadFailed
from framework.model import LoadResult

MOST_ROWS = 20_000_000
MOST_NAMES = 255  # kinds of requests, and reasons of failures; all further ones count as OTHER
OTHER = "other"
EDGE_S = 1.0
EDGE_REQUESTS = 5.0
"""A run whose last sign is so long, or so many mean intervals between requests, before the window's end ended early."""


class RequestRows:
    """Columns of requests, in any order.  Times in ns since the epoch."""

    def __init__(self) -> None:
        self._due, self._sent, self._end = array("q"), array("q"), array("q")
        self._status, self._ok = array("h"), array("B")
        self._class, self._reason = array("B"), array("B")
        self._classes: dict[str, int] = {}
        self._reasons: dict[str, int] = {"": 0}

    def __len__(self) -> int:
        return len(self._due)

    def add(
        self, start_ns: int, end_ns: int, status: int, ok: bool, name: str = "request", reason: str = "",
        *, due_ns: int | None = None, sent: bool = True,
    ) -> None:  # fmt: skip
        """Add a request.  ``end_ns``: 0 without a reply.  ``due_ns``: where it is known and not ``start_ns``.

        ``reason``: of its failure.  Raises LoadFailed for too many requests, or times that no clock shows.
        """
        if len(self._due) >= MOST_ROWS:
            raise LoadFailed(f"the generator reports more than {MOST_ROWS:,} requests")
        due_ns = start_ns if due_ns is None else due_ns
        if not 0 < due_ns < 2**62 or not 0 < start_ns < 2**62 or not (end_ns == 0 or start_ns <= end_ns < 2**62):
            raise LoadFailed(f"the generator reports a request from {start_ns} to {end_ns} ns")
        self._due.append(due_ns)
        self._sent.append(start_ns if sent else 0)
        self._end.append(end_ns)
        self._status.append(status if 0 <= status < 1000 else 0)
        self._ok.append(ok)
        self._class.append(_index(self._classes, name))
        self._reason.append(0 if ok else _index(self._reasons, reason or f"status {status}"))

    def result(self, origin_ns: int, warmup_s: float, window_s: float) -> LoadResult:
        """Return the requests as a result whose warm-up begins at ``origin_ns``, without what only its caller knows."""
        due = np.array(self._due, np.int64)
        reasons = np.array(self._reason, np.uint8)
        start = origin_ns + round(warmup_s * 1e9)
        inside = (due >= start) & (due < start + round(window_s * 1e9))
        counts = Counter(reasons[inside].tolist())
        return LoadResult(
            started_ns=origin_ns,
            warmup_s=warmup_s,
            window_s=window_s,
            classes=tuple(self._classes) or ("request",),
            due_ns=due,
            sent_ns=np.array(self._sent, np.int64),
            end_ns=np.array(self._end, np.int64),
            request_class=np.array(self._class, np.uint8),
            status=np.array(self._status, np.int16),
            ok=np.array(self._ok, np.bool_),
            errors={reason: counts[index] for reason, index in self._reasons.items() if index and counts[index]},
            spans_created=0,
            spans_exported=0,
            cpu_s=None,
        )

    def origin_ns(self) -> int:
        """Return when the first request was due, or sent where that is not known.  Raises LoadFailed without one."""
        if not self._due:
            raise LoadFailed("the generator reports no requests")
        return min(self._due)

    def check_length(self, origin_ns: int, seconds: float, rate_rps: float) -> None:
        """Raise LoadFailed where the requests end long before ``seconds`` have passed."""
        last = max(max(self._due), max(self._end))
        lasted = (last - origin_ns) / 1e9
        if lasted < seconds - max(EDGE_S, EDGE_REQUESTS / rate_rps):
            reasons = [reason for reason in self._reasons if reason][:3]
            failures = f"; failures: {', '.join(reasons)}" if reasons else ""
            raise LoadFailed(
                f"the generator's requests end after {lasted:.1f} s, and warm-up and window take {seconds:g} s"
                f"{failures}"
            )


def _index(names: dict[str, int], name: str) -> int:
    """Return the number of a name, a new one as long as there are few."""
    if name not in names and len(names) >= MOST_NAMES:
        name = OTHER
    return names.setdefault(name, len(names))
