"""What makes a repetition invalid (measured badly) or infeasible (the application passed a limit), in sentences.

Invalid: something outside the application disturbed the measurement, so it is repeated.  Infeasible: the
measurement is good and the configuration is not.  Each reason is a sentence of its own with the numbers behind it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from framework.model import Limits, LoadResult
from framework.objective import stationarity
from framework.objective.window import Machine, Window

CONFIDENT_REQUESTS = 1000
EDGE_SIGMA = 3.0
"""How many standard deviations of the requests in flight at the edges of a window are granted to the achieved rate."""
ARRIVAL_SIGMA = 6.0
"""A seeded Poisson schedule strays further than this from its rate once in 10^9 windows: then it was not followed."""


def infeasible(window: Window, limits: Limits) -> Iterator[str]:
    """Limits of the application that were passed."""
    if not window.requests:
        return
    errors = window.failed / window.requests
    if errors > limits.errors:
        yield f"{window.failed} of {window.requests} requests failed ({errors:.2%}); the limit is {limits.errors:.2%}"
    granted = EDGE_SIGMA * math.sqrt(window.in_flight)
    if window.completed + granted < limits.achieved_rate * window.requests:
        yield (
            f"{window.completed / window.seconds:.1f} requests/s were answered of "
            f"{window.requests / window.seconds:.1f} wanted ({window.completed / window.requests:.1%}); "
            f"the limit is {limits.achieved_rate:.1%}"
        )


def finite(value: float | None, window: Window) -> Iterator[str]:
    """The objective has a value: few failures may be allowed and still reach into a high quantile or the mean."""
    if value is None:
        yield (
            f"the objective is infinite: {window.failed} of {window.requests} requests failed, "
            "and a failed request is infinitely slow"
        )


def schedule(window: Window, rate_rps: float, limits: Limits) -> Iterator[str]:
    """The generator scheduled and sent what was asked for."""
    wanted = rate_rps * window.seconds
    if abs(window.requests - wanted) > ARRIVAL_SIGMA * math.sqrt(wanted) + 1:
        yield f"the generator scheduled {window.requests} requests where {wanted:.0f} were wanted"
    unsent = window.requests - len(window.lag_ms)
    if unsent > (1 - limits.achieved_rate) * window.requests:
        yield f"the generator did not send {unsent} of {window.requests} requests"


def lag(window: Window, p95_ms: float, limits: Limits) -> Iterator[str]:
    """The generator sent its requests when they were due."""
    if not len(window.lag_ms):
        return
    late = float(np.quantile(window.lag_ms, 0.99))
    if late > limits.generator_lag * p95_ms:
        yield (
            f"the generator sent requests late: p99 of its lag is {late:.3g} ms, {late / p95_ms:.1%} of the p95 of "
            f"{p95_ms:.4g} ms; the limit is {limits.generator_lag:.1%}"
        )


def machine(found: Machine, limits: Limits) -> Iterator[str]:
    """The machine was there."""
    if found.stolen is not None and found.stolen > limits.stolen_cpu:
        yield (
            f"{found.stolen:.1%} of the machine's CPU time was stolen by its host; the limit is {limits.stolen_cpu:.1%}"
        )


def span_counts(read: int, created: int | None, roots: int, load: LoadResult, limits: Limits) -> Iterator[str]:
    """Every span that was created was read.  ``created`` includes the generator's; None: only those are counted."""
    what, wanted, found = (
        ("spans", created, read)
        if created is not None
        else (
            "root spans",
            load.spans_created,
            roots,
        )
    )
    if roots == 0:
        yield f"none of the {read} spans read is a root span of the generator: p95 cannot be read from spans"
    if wanted == 0:
        yield f"no {what} were created in the window: tracing is not on"
        return
    missing = (wanted - found) / wanted
    if missing > limits.missing_spans:
        yield (
            f"{wanted - found} of {wanted} {what} are missing ({missing:.2%}); the limit is {limits.missing_spans:.2%}"
        )
    if missing < -limits.missing_spans:
        yield (
            f"{found - wanted} more {what} were read than the {wanted} created: "
            "spans of something else carry the window's mark or lie in its time"
        )


def agreement(span_p95_ms: float, generator_p95_ms: float, limits: Limits) -> Iterator[str]:
    """Spans and generator tell the same p95."""
    if span_p95_ms == generator_p95_ms:  # infinities too
        return
    difference = abs(span_p95_ms / generator_p95_ms - 1) if math.isfinite(generator_p95_ms) else math.inf
    if difference > limits.p95_disagreement:
        yield (
            f"the p95 of the root spans, {span_p95_ms:.4g} ms, and of the generator, {generator_p95_ms:.4g} ms, "
            f"differ by {difference:.1%}; the limit is {limits.p95_disagreement:.1%}"
        )


def stationary(latency_ms: NDArray[np.float64], limits: Limits) -> Iterator[str]:
    """The level of latency did not move within the window."""
    found = stationarity.change(latency_ms, alpha=limits.stationarity_alpha, relative=limits.stationarity_change)
    if found is not None and found.moved:
        yield (
            f"latency moved within the window: the {found.level} of its last quarter is {found.ratio:.2f} times that "
            f"of its first (p = {found.p_value:.2g}); the limit is a factor of {1 + limits.stationarity_change:g}"
        )


def warnings(window: Window, created: int | None, found: Machine) -> Iterator[str]:
    """What a reader of the numbers should know though they count."""
    if window.requests < CONFIDENT_REQUESTS:
        yield f"p95 has low confidence: {window.requests} requests, fewer than {CONFIDENT_REQUESTS:,}"
    if window.requests < stationarity.BATCHES * stationarity.PER_BATCH:
        yield f"{window.requests} requests are too few to check that the window is stationary"
    if created is None:
        yield "the application's services do not count their spans: only the generator's own were checked for loss"
    if found.stolen is None:
        yield "CPU use was not read: stolen time and shares are unknown"
