"""Replications: simulated runs summarised in numbers, several of them in parallel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from framework.twin.simulator.draws import arrivals
from framework.twin.simulator.program import Program
from framework.twin.simulator.simulate import simulate

WARMUP_S = 2.0  # not counted
QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Replication:
    """Results of one simulated window.  ``failed``: fraction of requests that were rejected, timed out or did not end;
    their latency counts as infinite.  ``cores``: mean number of busy cores.  ``cpu_s``: CPU seconds per request, by
    service in the program's order.  ``wanted_rps``: the rate of the window's requests.
    """

    p50_ms: float
    p95_ms: float
    p99_ms: float
    throughput_rps: float
    failed: float
    cores: float
    cpu_s: tuple[float, ...] = ()
    wanted_rps: float = 0.0


def replication(program: Program, rate_rps: float, seconds: float, seed: int) -> Replication:
    """Simulate Poisson arrivals for ``seconds`` after a warm-up; equal seeds give equal requests for any program."""
    rng = np.random.default_rng(seed)
    whole = WARMUP_S + seconds
    due = arrivals(rate_rps, whole, True, rng)
    weights = program.weight / program.weight.sum()
    kinds = rng.choice(len(weights), size=len(due), p=weights).astype(np.int32)
    untraced = np.zeros(len(due), np.bool_)
    outcome = simulate(program, due, kinds, seed=seed, until_s=2 * whole, traced=untraced)
    failed = outcome.failed | ~np.isfinite(outcome.latency_s)
    counted = due >= WARMUP_S
    latency = np.where(failed, np.inf, outcome.latency_s)[counted]
    if not len(latency):
        return Replication(np.nan, np.nan, np.nan, 0.0, 0.0, 0.0)
    p50, p95, p99 = 1e3 * np.quantile(latency, QUANTILES, method="inverted_cdf")
    ended = due + np.where(failed, np.inf, outcome.latency_s)
    inside = (ended >= WARMUP_S) & (ended < whole)
    busy = float(outcome.cpu_s.sum()) / max(whole, float(ended[np.isfinite(ended)].max(initial=whole)))
    return Replication(
        float(p50), float(p95), float(p99), float(inside.sum()) / seconds, float(failed[counted].mean()), busy,
        tuple((outcome.cpu_s / len(due)).tolist()), float(counted.sum()) / seconds,
    )  # fmt: skip


def replications(program: Program, rate_rps: float, seconds: float, seeds: Sequence[int]) -> list[Replication]:
    """Simulate once per seed, in the order of the seeds, in one thread per core: the simulation releases the GIL."""
    with ThreadPoolExecutor(min(len(seeds), os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda seed: replication(program, rate_rps, seconds, seed), seeds))
