"""Baselines for placement: services spread by their load, and the slowest services in the best domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from optimizer.one_shot import PlacementSolver
from optimizer.placement.assignment import Assignment


class PlacementSpread(PlacementSolver):
    """Place the heaviest service first, each in the least loaded domain (longest processing time first)."""

    name = "placement-spread"
    summary = "placement baseline: the load spread evenly over the domains"
    source = "Graham 1969 (SIAM Journal on Applied Mathematics 17(2)), longest processing time first"
    suits = "as a baseline of placement: what a scheduler does that knows the load only"

    def _solve(self, problem: Assignment) -> tuple[NDArray[np.int64], str] | None:
        weights = problem.limits[0].weights if problem.limits else np.ones(len(problem.services))

        def least_full(places: NDArray[np.int64]) -> list[int]:
            here = places >= 0
            loads = np.bincount(places[here], weights=weights[here], minlength=len(problem.domains))
            return [int(domain) for domain in np.argsort(loads, kind="stable")]

        places = _greedy(problem, np.argsort(-weights, kind="stable").tolist(), least_full)
        return None if places is None else (places, "the heaviest first, where most is free")


class PlacementLatency(PlacementSolver):
    """Fill the first domain with the services of the highest own latency, then the next."""

    name = "placement-latency"
    summary = "placement baseline: the slowest services get the first domain"
    source = "the latency-guided scenarios of Sfakiotakis 2023 (NTUA)"
    suits = "as a baseline of placement: what somebody does who looks at latencies only"

    def _solve(self, problem: Assignment) -> tuple[NDArray[np.int64], str] | None:
        order = np.argsort(-problem.attribute("latency"), kind="stable").tolist()
        places = _greedy(problem, order, lambda places: list(range(len(problem.domains))))
        return None if places is None else (places, "the slowest first, where it fits")


def _greedy(
    problem: Assignment, order: Sequence[int], preferred: Callable[[NDArray[np.int64]], list[int]]
) -> NDArray[np.int64] | None:
    """Put each service into the first of its preferred domains where it fits; None where one fits nowhere."""
    places = np.full(len(problem.services), -1, dtype=np.int64)
    for service in order:
        for domain in preferred(places):
            places[service] = domain
            if problem.fits(places):
                break
        else:
            return None
    return places
