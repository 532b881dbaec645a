"""Reasons why a repetition is invalid (measured badly) or infeasible (the application exceeded a limit), in sentences.

Invalid: something outside the application disturbed the measurement, so it is repeated.  Infeasible: the
measurement is good and the configuration is not.  Each reason is a sentence with the numbers behind it.
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
REASONS_SHOWN = 4
JOINED = 0.5
"""Share of the traces with spans of services below which a window's critical path says little of its requests."""

REMEDY = (
    "name the formats that the services read in tracing.propagation (w3c, b3, b3-multi, jaeger), or have them keep "
    "every trace (OTEL_TRACES_SAMPLER=parentbased_always_on)"
)

EDGE_SIGMA = 3.0
"""Tolerance of the achieved rate, in standard deviations of the requests in flight at the edges of a window."""
ARRIVAL_SIGMA = 6.0
"""Tolerance of the scheduled rate, in standard deviations; a Poisson schedule exceeds it once in 10^9 windows."""


def infeasible(window: Window, limits: Limits) -> Iterator[str]:
    """Yield a sentence for each limit of the application that was exceeded."""
    if not window.requests:
        return
    errors = window.failed / window.requests
    if errors > limits.errors:
        yield (
            f"{window.failed} of {window.requests} requests failed ({errors:.2%}{_reasons(window, ': ')}); "
            f"the limit is {limits.errors:.2%}"
        )
    tolerance = EDGE_SIGMA * math.sqrt(window.in_flight)
    if window.completed + tolerance < limits.achieved_rate * window.requests:
        yield (
            f"{window.completed / window.seconds:.1f} requests/s were answered of "
            f"{window.requests / window.seconds:.1f} wanted ({window.completed / window.requests:.1%}); "
            f"the limit is {limits.achieved_rate:.1%}"
        )


def finite(value: float | None, window: Window) -> Iterator[str]:
    """Check that the objective is finite: a few allowed failures can make a high quantile or the mean infinite."""
    if value is None:
        yield (
            f"the objective is infinite: {window.failed} of {window.requests} requests failed"
            f"{_reasons(window, ' (', ')')}, and a failed request is infinitely slow"
        )


def _reasons(window: Window, before: str, after: str = "") -> str:
    """Return the most frequent reasons and names of failed requests with their numbers; empty where none is known."""
    ranked = sorted(window.reasons.items(), key=lambda item: (-item[1], item[0]))
    listed = [f"{count} {reason}" for reason, count in ranked[:REASONS_SHOWN]]
    others = sum(count for _, count in ranked[REASONS_SHOWN:])
    if others:
        listed.append(f"{others} for other reasons")
    named = sorted(window.failing.items(), key=lambda item: (-item[1], item[0]))[:REASONS_SHOWN]
    if listed and named:
        listed[-1] += f"; of {', '.join(f'{name!r} {count}' for name, count in named)}"
    return before + ", ".join(listed) + after if listed else ""


def schedule(window: Window, rate_rps: float, limits: Limits, load: LoadResult) -> Iterator[str]:
    """Check that the generator scheduled and sent the requests at the rate that was asked for [requests/s].

    In a closed loop there is no such rate.
    """
    if load.loop == "closed":
        return
    wanted = rate_rps * window.seconds
    if abs(window.requests - wanted) > ARRIVAL_SIGMA * math.sqrt(wanted) + 1:
        yield f"the generator scheduled {window.requests} requests where {wanted:.0f} were wanted"
    unsent = window.requests - window.sent
    if unsent > (1 - limits.achieved_rate) * window.requests:
        yield f"the generator did not send {unsent} of {window.requests} requests"


def lag(window: Window, p95_ms: float, limits: Limits) -> Iterator[str]:
    """Check that the generator sent its requests when they were due."""
    if not len(window.lag_ms):
        return
    late = float(np.quantile(window.lag_ms, 0.99))
    if late > limits.generator_lag * p95_ms:
        yield (
            f"the generator sent requests late: p99 of its lag is {late:.3g} ms, {late / p95_ms:.1%} of the p95 of "
            f"{p95_ms:.4g} ms; the limit is {limits.generator_lag:.1%}"
        )


def machine(usage: Machine, limits: Limits) -> Iterator[str]:
    """Check that the host did not steal too much CPU time from the machine."""
    if usage.stolen is not None and usage.stolen > limits.stolen_cpu:
        yield (
            f"{usage.stolen:.1%} of the machine's CPU time was stolen by its host; the limit is {limits.stolen_cpu:.1%}"
        )


def span_counts(read: int, created: int | None, roots: int, load: LoadResult, limits: Limits) -> Iterator[str]:
    """Check that all created spans were read.  ``created`` includes the generator's spans; None: check only these."""
    kind, wanted, present = (
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
        yield f"no {kind} were created in the window: tracing is not on"
        return
    missing = (wanted - present) / wanted
    if missing > limits.missing_spans:
        yield (
            f"{wanted - present} of {wanted} {kind} are missing ({missing:.2%}); "
            f"the limit is {limits.missing_spans:.2%}"
        )
    if missing < -limits.missing_spans:
        yield (
            f"{present - wanted} more {kind} were read than the {wanted} created: "
            "spans of something else carry the window's mark or lie in its time"
        )


def agreement(span_p95_ms: float, generator_p95_ms: float, limits: Limits) -> Iterator[str]:
    """Check that the p95 of the spans agrees with the p95 of the generator [ms]."""
    if span_p95_ms == generator_p95_ms:  # infinities too
        return
    difference = abs(span_p95_ms / generator_p95_ms - 1) if math.isfinite(generator_p95_ms) else math.inf
    if difference > limits.p95_disagreement:
        yield (
            f"the p95 of the root spans, {span_p95_ms:.4g} ms, and of the generator, {generator_p95_ms:.4g} ms, "
            f"differ by {difference:.1%}; the limit is {limits.p95_disagreement:.1%}"
        )


def joined(share: float, traces: int, wanted: int | None) -> Iterator[str]:
    """Warn that the services' spans do not join the generator's, or join few: their share of the path is then wrong.

    ``share``: of the ``traces`` that were read.  ``wanted``: the traces that were asked for by their ids; None: all.
    """
    if wanted is not None and traces < wanted:
        yield f"{wanted - traces} of {wanted} traces could not be used: spans of theirs are missing or malformed"
    if traces and share < JOINED:
        yield not_joined(share)


def not_joined(share: float) -> str:
    """Return what a small share of traces with spans of services means, and the remedy."""
    known = "not known" if not share else "known of these only"
    return f"services have spans in {share:.0%} of the requests' traces: the critical path is {known}; {REMEDY}"


def stationary(latency_ms: NDArray[np.float64], limits: Limits, load: LoadResult) -> Iterator[str]:
    """Check that the level of latency did not move within the window, where the order of requests is known."""
    if load.timing == "distribution":
        return
    change = stationarity.change(latency_ms, alpha=limits.stationarity_alpha, relative=limits.stationarity_change)
    if change is not None and change.moved:
        yield (
            f"latency moved within the window: the {change.level} of its last quarter is {change.ratio:.2f} times that "
            f"of its first (p = {change.p_value:.2g}); the limit is a factor of {1 + limits.stationarity_change:g}"
        )


def warnings(window: Window, created: int | None, usage: Machine, load: LoadResult) -> Iterator[str]:
    """Yield warnings about a repetition that still counts."""
    if load.closed_loop:
        yield "closed loop: requests waited for replies to others, and their latencies leave that out"
    if load.timing == "sent":
        yield (
            "the generator does not tell when requests were due: latencies count from the send, and its lag is unknown"
        )
    if load.timing == "distribution":
        yield (
            "the generator tells only the distribution of latencies: whether the window is stationary, the warm-up "
            "that it needs and the generator's lag are unknown"
        )
    if window.requests < CONFIDENT_REQUESTS:
        yield f"p95 has low confidence: {window.requests} requests, fewer than {CONFIDENT_REQUESTS:,}"
    if load.timing != "distribution" and window.requests < stationarity.BATCHES * stationarity.PER_BATCH:
        yield f"{window.requests} requests are too few to check that the window is stationary"
    if created is None:
        yield "the application's services do not count their spans: only the generator's own were checked for loss"
    if usage.stolen is None:
        yield "CPU use was not read: stolen time and shares are unknown"
