"""The length of the warm-up: one for a whole study, from runs of the default configuration.

MSER (White, 1997, Simulation 69(6)) cuts off the beginning so that the standard error of the rest is smallest.
Where the cut is past the middle, the run has not settled, and no length can be taken from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from framework.errors import InputError, MeasurementInvalid
from framework.model import LoadResult

BIN_S = 0.2
SPARE = 5
"""Bins at the end where no cut is allowed: the error of a few similar bins is small by chance."""


def mser(bins: ArrayLike) -> int:
    """Return the number of leading bins to cut, which minimises the standard error of the mean of the rest.

    ``bins``: shape (n,), n > 5, finite.  The first of several minima counts.  Raises InputError for fewer bins.
    """
    values = np.asarray(bins, dtype=np.float64)
    count = len(values)
    if count <= SPARE:
        raise InputError(f"MSER needs more than {SPARE} bins, not {count}")
    # Sums over values[d:] for every d at once; centring first keeps the difference of squares accurate.
    centred = values - values.mean()
    left = np.arange(count, 0, -1)
    sums = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum((centred**2)[::-1])[::-1]
    statistic = (squares - sums**2 / left) / left**2
    # Rounding leaves tiny differences between equal errors; they count as equal, so that the earliest cut wins.
    allowed = statistic[: count - SPARE]
    threshold = allowed.min() + (1e-12 * np.abs(values).max()) ** 2
    return int(np.flatnonzero(allowed <= threshold)[0])


def level(run: LoadResult) -> NDArray[np.float64]:
    """Return the mean log latency [log ms] of good replies per 200 ms of due time, warm-up and window; shape (bins,).

    The logarithm keeps one slow request from dominating its bin.  Bins without a good reply are nan.
    """
    length = round((run.warmup_s + run.window_s) / BIN_S)
    index = (run.due_ns - run.started_ns) // int(BIN_S * 1e9)
    good = run.ok & (run.end_ns > run.due_ns) & (index >= 0) & (index < length)
    logs = np.log((run.end_ns - run.due_ns)[good] / 1e6)
    counts = np.bincount(index[good], minlength=length)
    sums = np.bincount(index[good], weights=logs, minlength=length)
    levels = np.full(length, np.nan)
    levels[counts > 0] = sums[counts > 0] / counts[counts > 0]
    return levels


def warmup_s(runs: Sequence[LoadResult]) -> float:
    """Return the warm-up [s] that ``runs`` of the default configuration need, a multiple of 0.2.

    The runs have one length; their bins are averaged first (Welch, 1983), so that a pause of one run does not look
    like a phase of all.  Raises MeasurementInvalid when the cut is past the middle or too few bins have a good reply,
    InputError without runs.
    """
    if not runs:
        raise InputError("the length of the warm-up is found from at least one run of the default configuration")
    levels = [level(run) for run in runs]
    shortest = min(len(bins) for bins in levels)
    table = np.array([bins[:shortest] for bins in levels])
    seen = ~np.isnan(table).all(axis=0)
    if seen.sum() <= max(SPARE, shortest // 2):
        raise MeasurementInvalid(
            [f"only {int(seen.sum())} of {shortest} bins of {BIN_S:g} s hold a good reply: no warm-up can be found"]
        )
    kept = np.flatnonzero(seen)
    cut = mser(np.nanmean(table[:, seen], axis=0))
    seconds = float(kept[cut]) * BIN_S if cut else 0.0
    if cut > len(kept) / 2:
        raise MeasurementInvalid(
            [
                f"latency had not settled by the middle of a run of {shortest * BIN_S:g} s "
                f"(MSER cuts off {seconds:g} s): measure longer runs of the default configuration"
            ]
        )
    return round(seconds, 6)
