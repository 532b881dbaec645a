"""Preparation of an application by its own requests, where it has no hook for that: unmeasured, before the warm-up.

A deployment that is healthy may not answer yet, and its caches are cold: the first window would measure that.  So the
workload's requests are sent in short parts until replies come, and then until their latency settles.  The first
repetition of a study finds out how many parts that takes, and every other one sends the same number of the same
requests, so that all start from equal state (measurement.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from framework.bench import Bench
from framework.errors import DeploymentFailed
from framework.model import LoadPlan, LoadResult, Running, Usage
from framework.ports.clock import Clock
from framework.ports.load import LoadGenerator
from framework.ports.testbed import Progress

PART_S = 3.0  # one part; longer where it would have fewer than LEAST requests
LEAST = 6
MOST_PARTS = 5
ANSWER_S = 90.0  # for the first replies of a deployment whose containers are ready
PAUSE_S = 1.0
OVERLOADED = 3  # parts in succession with fewer answers than half: it is up, and cannot do more
SETTLED = 1.25  # ratio between the medians of three successive seconds
SEEDS = 500_000  # behind the seeds of the measured repetitions

Send = Callable[[LoadPlan], LoadResult]
"""Drives one load."""


def sender(load: LoadGenerator, running: Running, usage: Callable[[], Usage], step: Progress) -> Send:
    """Return what sends requests to a deployment."""
    return lambda plan: load.run(plan, running, usage, step)


def prepared(bench: Bench, running: Running, plan: LoadPlan, step: Progress, parts: int | None) -> int:
    """Warm a deployment up like ``warmed``.  Raises DeploymentFailed also where a container ended by that."""
    send = sender(bench.load, running, lambda: bench.testbed.usage(running), step)
    sent = warmed(send, plan, bench.clock, parts)
    bench.testbed.alive(running)
    return sent


def warmed(send: Send, plan: LoadPlan, clock: Clock, parts: int | None = None) -> int:
    """Send the requests of a plan, at its rate and without traces; return the number of parts that it took.

    ``parts``: as many as an earlier repetition took; None: until the latency settles, at most five.
    Raises DeploymentFailed where no replies come, LoadFailed.
    """
    part = replace(plan, warmup_s=0.0, window_s=max(PART_S, LEAST / plan.rate_rps), trace=False)
    medians: list[float] = []
    for number in range(parts or MOST_PARTS):
        numbered = replace(part, seed=(part.seed + SEEDS + number) % 2**31)
        result = send(numbered) if number else answered(send, numbered, clock)
        medians += medians_ms(result)
        if parts is None and settled(medians):
            return number + 1
    return parts or MOST_PARTS


def answered(send: Send, plan: LoadPlan, clock: Clock) -> LoadResult:
    """Send the requests of a plan, again and again until at least half of them are answered.

    What answers fewer, three times in succession, is overloaded: the measurement will say so.
    An answer is any reply with a status below 500.  Raises DeploymentFailed where none come for long, LoadFailed.
    """
    deadline = clock.monotonic() + ANSWER_S
    few = 0
    while True:
        result = send(plan)
        replies = result.ok | ((result.status > 0) & (result.status < 500))
        few = few + 1 if replies.any() else 0
        if not len(replies) or 2 * int(replies.sum()) >= len(replies) or few == OVERLOADED:
            return result
        if clock.monotonic() >= deadline:
            reasons = "; ".join(f"{count} x {reason}" for reason, count in result.errors.items())
            raise DeploymentFailed(
                f"all is healthy, but {len(replies) - int(replies.sum())} of {len(replies)} requests to "
                f"{plan.workload.target} have no answer after {ANSWER_S:g} s ({reasons})"
            )
        clock.sleep(PAUSE_S)


def medians_ms(result: LoadResult) -> list[float]:
    """Return the median latency [ms] of each second of a load; infinite where most of its requests failed."""
    seconds = (result.due_ns - result.started_ns) // 10**9
    latency = np.where(result.ok, (result.end_ns - result.due_ns) / 1e6, math.inf)
    return [float(np.median(latency[seconds == second])) for second in np.unique(seconds)]


def settled(medians: Sequence[float]) -> bool:
    """Return whether the medians of the last three seconds are alike."""
    last = medians[-3:]
    return len(last) == 3 and math.isfinite(max(last)) and max(last) <= SETTLED * max(min(last), 0.1)
