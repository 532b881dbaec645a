"""The placement of least interference and communication, exactly: dynamic programming over sets of services.

The least cost of the services S in the domains 1..k is the least over all T in S of the cost of T in domain k and of
S without T in the others: 3^n steps for each domain (Bellman 1962, Journal of the ACM 9(1), on sets; the min-plus
subset convolution).  The last step is needed for all services only: two domains cost 2^n, four of one size 3^n / 2.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from optimizer.errors import InvalidInput
from optimizer.one_shot import PlacementSolver
from optimizer.placement.assignment import Assignment

MOST_SERVICES = 20  # 3^20 / 2 steps are some seconds


class PlacementExact(PlacementSolver):
    """One suggestion: the placement with the least predicted cost of those that fit."""

    name = "placement-exact"
    summary = (
        "placement: the least predicted interference and remote calls under the capacities, proved, up to 20 services"
    )
    source = "dynamic programming over subsets (Bellman 1962)"
    suits = "to place up to 20 services when their sensitivities and pressures are known"

    def _solve(self, problem: Assignment) -> tuple[NDArray[np.int64], str] | None:
        if len(problem.services) > MOST_SERVICES:
            raise InvalidInput(
                f"{len(problem.services)} services; placement-exact takes up to {MOST_SERVICES}: use placement-cpsat"
            )
        places = solve(problem)
        if places is None:
            return None
        return places, f"predicted cost {problem.cost(places):.4g}, proved to be the least"


def solve(problem: Assignment) -> NDArray[np.int64] | None:
    """Return the domain of each service, (n,); None where nothing fits."""
    count, tables = len(problem.domains), _tables(problem)
    everything = (1 << len(problem.services)) - 1
    if count == 1:
        return np.zeros(len(problem.services), dtype=np.int64) if np.isfinite(tables[0][everything]) else None
    folded: dict[tuple[int, ...], NDArray[np.float64]] = {(d,): tables[d] for d in range(count)}
    middle = count // 2
    halves = tuple(range(middle)), tuple(range(middle, count))
    left, right = (_fold(half, tables, folded) for half in halves)
    split = int(np.argmin(left + right[::-1]))  # right[everything ^ T], for T ascending
    if not np.isfinite(left[split] + right[everything ^ split]):
        return None
    places = np.empty(len(problem.services), dtype=np.int64)
    for half, members in zip(halves, (split, everything ^ split), strict=True):
        for domain, inside in _unfold(half, members, tables, folded):
            for service in range(len(places)):
                if inside >> service & 1:
                    places[service] = domain
    return places


def _tables(problem: Assignment) -> list[NDArray[np.float64]]:
    """Return for each domain the cost of every set of services in it, (2^n,), infinite where it does not fit.

    Equal domains have the same array.
    """
    nothing = np.zeros_like(problem.interference)
    pair_costs = problem.interference - problem.remote  # but for a constant, what a pair costs in one domain
    apart = _sums(np.zeros(len(problem.services)), problem.apart.astype(np.float64))
    loads = [_sums(limit.weights, nothing) for limit in problem.limits]
    by_key: dict[tuple[float, ...], NDArray[np.float64]] = {}
    tables = []
    for domain in range(len(problem.domains)):
        bounds = tuple(float(limit.bounds[domain]) for limit in problem.limits)
        absent = (~problem.allowed[:, domain]).astype(np.float64)
        alone = np.ascontiguousarray(problem.alone[:, domain])
        key = (*bounds, *absent.tolist(), *alone.tolist())
        if key not in by_key:
            fits = (apart == 0) & (_sums(absent, nothing) == 0)
            for load, bound in zip(loads, bounds, strict=True):
                fits &= load <= bound + 1e-9 * max(1.0, abs(bound))
            by_key[key] = np.where(fits, _sums(alone, pair_costs), np.inf)
        tables.append(by_key[key])
    return tables


def _fold(
    domains: tuple[int, ...], tables: list[NDArray[np.float64]], folded: dict[tuple[int, ...], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return the least cost of every set of services in ``domains``, (2^n,); equal domains are computed once."""
    if domains not in folded:
        before = _fold(domains[:-1], tables, folded)
        alike = next((known for known in folded if len(known) == len(domains) and _same(known, domains, tables)), None)
        last = tables[domains[-1]]
        folded[domains] = folded[alike] if alike else _convolve(before, last, alike=before is last)
    return folded[domains]


def _same(first: tuple[int, ...], second: tuple[int, ...], tables: list[NDArray[np.float64]]) -> bool:
    return all(tables[a] is tables[b] for a, b in zip(first, second, strict=True))


def _unfold(
    domains: tuple[int, ...],
    members: int,
    tables: list[NDArray[np.float64]],
    folded: dict[tuple[int, ...], NDArray[np.float64]],
) -> list[tuple[int, int]]:
    """Return (domain, its services as bits) of the cheapest split of ``members`` over ``domains``."""
    if len(domains) == 1:
        return [(domains[0], members)]
    inside = int(_part(folded[domains[:-1]], tables[domains[-1]], members))
    return [*_unfold(domains[:-1], members ^ inside, tables, folded), (domains[-1], inside)]


@numba.njit(cache=True)
def _sums(single: NDArray[np.float64], pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for every set the sum over its members and its pairs, (2^n,)."""
    count = len(single)
    out = np.zeros(1 << count)
    for members in range(1, 1 << count):
        lowest = 0
        while not members >> lowest & 1:
            lowest += 1
        rest = members & (members - 1)
        total = out[rest] + single[lowest]
        for other in range(lowest + 1, count):
            if rest >> other & 1:
                total += pairs[lowest, other]
        out[members] = total
    return out


@numba.njit(cache=True)
def _convolve(before: NDArray[np.float64], last: NDArray[np.float64], alike: bool) -> NDArray[np.float64]:
    """Return out[S] = min over T in S of before[S - T] + last[T]; if ``alike`` (one table), T has S's first member."""
    out = np.empty(len(before))
    for members in range(len(before)):
        kept = members & -members if alike else 0
        free = members ^ kept
        best, inside = np.inf, free
        while True:
            total = before[free ^ inside] + last[inside | kept]
            if total < best:
                best = total
            if inside == 0:
                break
            inside = (inside - 1) & free
        out[members] = best
    return out


@numba.njit(cache=True)
def _part(before: NDArray[np.float64], last: NDArray[np.float64], members: int) -> int:
    """Return the T in S of ``_convolve``'s minimum."""
    best, part, inside = np.inf, 0, members
    while True:
        total = before[members ^ inside] + last[inside]
        if total < best:
            best, part = total, inside
        if inside == 0:
            return part
        inside = (inside - 1) & members
