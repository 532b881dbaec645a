"""Random placement problems, and the least cost of small ones by enumeration."""

from __future__ import annotations

import itertools

import numpy as np

from optimizer.placement.assignment import APART, CALLS, ONLY, PRESSURE, SENSITIVITY, Assignment
from optimizer.space import Capacity, Parameter, SearchSpace

RESOURCES = ("core", "memory", "cache")


def random_placement(
    rng: np.random.Generator, services: int, domains: int, *, room: float = 1.5, pinned: bool = False
) -> SearchSpace:
    """Return a placement space with identical domains whose default fits.

    ``room``: total capacity over total need.  ``pinned``: the first service is pinned to the first domain and kept
    apart from the second service; perhaps nothing fits then.
    """
    names = [f"s{number}" for number in range(services)]
    places = tuple(f"node{number // 2}.{number % 2}" for number in range(domains))
    need = rng.uniform(0.2, 2.0, services)
    start = np.arange(services) % domains
    loads = np.bincount(start, weights=need, minlength=domains)
    bound = max(float(loads.max()), room * float(need.sum()) / domains)
    parameters = []
    for number, name in enumerate(names):
        attributes = {"score": float(rng.uniform(0, 5)), "latency": float(rng.uniform(1, 9))}
        attributes |= {SENSITIVITY + resource: float(rng.exponential()) for resource in RESOURCES}
        attributes |= {PRESSURE + resource: float(rng.exponential()) for resource in RESOURCES}
        attributes[CALLS + names[rng.integers(services)]] = 1.0
        if pinned and number == 0:
            attributes[ONLY + places[0]] = 1.0
            attributes[APART + names[1]] = 1.0
        default = places[start[number]]
        parameters.append(Parameter(name, "categorical", default, choices=places, attributes=attributes))
    weights = dict(zip(names, need.tolist(), strict=True))
    return SearchSpace(parameters, [Capacity(weights, place, bound, "cpu") for place in places])


def least_cost(problem: Assignment) -> float:
    """Return the least cost over all placements that fit, by enumeration; infinite where none fits."""
    least = np.inf
    for places in itertools.product(range(len(problem.domains)), repeat=len(problem.services)):
        at = np.array(places)
        if problem.fits(at):
            least = min(least, problem.cost(at))
    return float(least)
