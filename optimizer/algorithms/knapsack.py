"""The 0-1 knapsack: services that suffer most from neighbours get the performance cores, as far as these suffice.

Source: K. Sfakiotakis, diploma thesis, NTUA 2023: weight the peak CPU need, capacity the performance cores, value the
sensitivity score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import InvalidInput
from optimizer.one_shot import PlacementSolver
from optimizer.placement.assignment import Assignment


class Knapsack(PlacementSolver):
    """Fill the first domain with the most valuable services that fit, then the next; the last one gets the others.

    The domain's ``Capacity`` names the weights; the attribute ``score`` is the value.
    """

    name = "knapsack"
    summary = "placement: the services that suffer most from neighbours get the first domain, as far as it reaches"
    source = "Sfakiotakis 2023 (NTUA); dynamic programme over undominated states: Nemhauser & Ullmann 1969"
    suits = "to place services where only their scores and peak needs are known"

    def _solve(self, problem: Assignment) -> tuple[NDArray[np.int64], str]:
        if not problem.limits:
            raise InvalidInput("the knapsack needs the capacity of a domain")
        score = problem.attribute("score")
        limit = problem.limits[0]
        places = np.full(len(problem.services), -1, dtype=np.int64)
        for domain, bound in enumerate(limit.bounds.tolist()):
            left = np.flatnonzero((places < 0) & problem.allowed[:, domain])
            last = not problem.allowed[places < 0, domain + 1 :].any()
            chosen = left if last else left[best_load(limit.weights[left], score[left], bound)]
            places[chosen] = domain
        first = int(np.argmax(problem.allowed.any(axis=0)))
        return places, f"score {score[places == first].sum():.3g} of {score.sum():.3g} on {problem.domains[first]}"


def best_load(weights: NDArray[np.float64], values: NDArray[np.float64], capacity: float) -> NDArray[np.int64]:
    """Return the items, ascending, of the largest value within ``capacity``; on a tie the lightest.

    Exact for real weights and values from 0 (n,): after each item, the states (weight, value) that no lighter state of
    at least the same value dominates.  Their number is bounded by that of different weights, and by 2^n.
    """
    slack = capacity + 1e-9 * max(1.0, abs(capacity))
    states: list[tuple[float, float, int]] = [(0.0, 0.0, 0)]  # weight ascending, value ascending, items as bits
    for item, (weight, value) in enumerate(zip(weights.tolist(), values.tolist(), strict=True)):
        added = [(w + weight, v + value, bits | 1 << item) for w, v, bits in states if w + weight <= slack]
        best = -1.0
        kept = []
        for state in sorted(states + added, key=lambda entry: (entry[0], -entry[1], entry[2])):
            if state[1] > best:
                kept.append(state)
                best = state[1]
        states = kept
    bits = states[-1][2]
    return np.array([item for item in range(len(weights)) if bits >> item & 1], dtype=np.int64)
