"""Placement as a search space: each service is a categorical parameter; its choices are the domains.

A domain is a set of CPUs, or a host.  The attributes of a service's parameter describe the service:

    sensitivity.R   its slowdown per unit of pressure on the resource R from its neighbours
    pressure.R      the pressure that it puts on the resource R itself
    weight          the weight of its own slowdown (its share of the critical path); 1 where it is not set
    score           its total sensitivity: the value of a service in the knapsack
    latency         its own tail latency [ms]
    calls.SERVICE   its calls to that service per request (a parameter's group, or its name without one)
    remote.SERVICE  its slowdown where that service is in another domain: its calls take longer
    cost.DOMAIN     what it costs in that domain by itself
    apart.SERVICE   not 0: it must not share a domain with that service
    only.DOMAIN     not 0: it runs in that domain, or in another domain with such an attribute

Capacities of domains are constraints of the space (``Capacity``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import InvalidInput
from optimizer.space import Capacity, Configuration, SearchSpace, Value

SENSITIVITY, PRESSURE, CALLS, REMOTE, COST = "sensitivity.", "pressure.", "calls.", "remote.", "cost."
APART, ONLY = "apart.", "only."


def named(attributes: Mapping[str, float], prefix: str) -> dict[str, float]:
    """Return the attributes with a prefix, by the rest of their names: for PRESSURE, resource -> pressure."""
    return {name.removeprefix(prefix): value for name, value in attributes.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class Limit:
    """One capacity: the weight of each service (n,) and the bound of each domain, infinite where it has none."""

    weights: NDArray[np.float64]
    bounds: NDArray[np.float64]  # (domains,)


@dataclass(frozen=True)
class Assignment:
    """A placement problem of n services.

    ``interference``: (n, n), symmetric, zero diagonal: the cost of two services in one domain.  ``calls``: (n, n),
    symmetric: calls between them per request.  ``remote``: (n, n), symmetric: the cost of two services in different
    domains.  ``alone``: (n, domains): the cost of a service in a domain, whatever else is there.  ``apart``: (n, n),
    symmetric: True where two must not share a domain.  ``allowed``: (n, domains): True where a service may run.
    """

    services: tuple[str, ...]
    domains: tuple[Value, ...]
    limits: tuple[Limit, ...]
    interference: NDArray[np.float64]
    calls: NDArray[np.float64]
    remote: NDArray[np.float64]
    alone: NDArray[np.float64]
    apart: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    attributes: tuple[Mapping[str, float], ...] = ()

    def attribute(self, name: str) -> NDArray[np.float64]:
        """Return an attribute of each service, (n,); 0 where it is not set."""
        return np.array([attributes.get(name, 0.0) for attributes in self.attributes])

    def configuration(self, places: NDArray[np.int64]) -> Configuration:
        """Return the configuration that puts each service into the domain of this index, (n,)."""
        return Configuration(
            {service: self.domains[place] for service, place in zip(self.services, places, strict=True)}
        )

    def places(self, configuration: Mapping[str, Value]) -> NDArray[np.int64]:
        """Return the index of each service's domain, (n,)."""
        index = {domain: place for place, domain in enumerate(self.domains)}
        return np.array([index[configuration[service]] for service in self.services], dtype=np.int64)

    def cost(self, places: NDArray[np.int64]) -> float:
        """Return the interference of all pairs that share a domain, and what calls to other domains cost."""
        shared = places[:, None] == places[None, :]
        pairs = self.interference[shared].sum() + self.remote[~shared].sum()
        return float(pairs / 2 + self.alone[np.arange(len(places)), places].sum())

    def fits(self, places: NDArray[np.int64]) -> bool:
        """Return whether all capacities, ``apart`` and ``allowed`` are kept; a service at -1 is not placed yet."""
        here = np.flatnonzero(places >= 0)
        at = places[here]
        shared = at[:, None] == at[None, :]
        if not self.allowed[here, at].all() or (shared & self.apart[np.ix_(here, here)]).any():
            return False
        for limit in self.limits:
            used = np.bincount(at, weights=limit.weights[here], minlength=len(self.domains))
            if bool(np.any(used > limit.bounds + 1e-9 * np.maximum(1.0, np.abs(limit.bounds)))):
                return False
        return True


def assignment_of(space: SearchSpace) -> Assignment:
    """Return the placement problem of a space.  Raises InvalidInput on a space of another kind."""
    first = space.parameters[0]
    for parameter in space.parameters:
        if parameter.kind != "categorical" or parameter.choices != first.choices or parameter.condition is not None:
            raise InvalidInput(
                f"{parameter.name}: a placement needs categorical parameters with the same choices (the domains)"
            )
    by_name: dict[str, list[Capacity]] = {}
    for constraint in space.constraints:
        if not isinstance(constraint, Capacity):
            raise InvalidInput(f"constraint {constraint}: a placement has capacities only")
        by_name.setdefault(constraint.name, []).append(constraint)
    limits = tuple(_limit(space, first.choices, capacities) for capacities in by_name.values())
    calls, remote, apart = _pairwise(space, CALLS), _pairwise(space, REMOTE), _pairwise(space, APART) != 0
    alone = np.array([[p.attributes.get(f"{COST}{domain}", 0.0) for domain in first.choices] for p in space.parameters])
    return Assignment(
        space.names, first.choices, limits, _interference(space), calls, remote, alone, apart,
        _allowed(space, first.choices), tuple(parameter.attributes for parameter in space.parameters),
    )  # fmt: skip


def _limit(space: SearchSpace, domains: tuple[Value, ...], capacities: list[Capacity]) -> Limit:
    weights = {name: capacity.weights.get(name, 0.0) for capacity in capacities for name in space.names}
    if any(dict(capacity.weights) != dict(capacities[0].weights) for capacity in capacities):
        raise InvalidInput(f"capacity {capacities[0].name!r}: a service weighs the same in every domain")
    bounds = {capacity.place: capacity.bound for capacity in capacities}
    return Limit(
        np.array([weights[name] for name in space.names]), np.array([bounds.get(domain, np.inf) for domain in domains])
    )


def _interference(space: SearchSpace) -> NDArray[np.float64]:
    """Return cost[i, j] = h[i, j] + h[j, i] with h[i, j] = sum over R of weight_i sensitivity_i,R pressure_j,R."""
    names = sorted(
        {key for parameter in space.parameters for key in parameter.attributes if key.startswith(SENSITIVITY)}
    )
    resources = [name.removeprefix(SENSITIVITY) for name in names]
    table = [parameter.attributes for parameter in space.parameters]
    sensitivity = np.array([[attributes.get(SENSITIVITY + r, 0.0) for r in resources] for attributes in table])
    pressure = np.array([[attributes.get(PRESSURE + r, 0.0) for r in resources] for attributes in table])
    weight = np.array([attributes.get("weight", 1.0) for attributes in table])
    suffered = weight[:, None] * (sensitivity @ pressure.T) if resources else np.zeros((len(table), len(table)))
    mutual: NDArray[np.float64] = suffered + suffered.T
    np.fill_diagonal(mutual, 0.0)
    return mutual


def _pairwise(space: SearchSpace, prefix: str) -> NDArray[np.float64]:
    """Return the sum of an attribute over both directions of each pair of services, (n, n)."""
    services = [parameter.group or parameter.name for parameter in space.parameters]
    one_way = np.array(
        [[parameter.attributes.get(prefix + other, 0.0) for other in services] for parameter in space.parameters]
    )
    both_ways: NDArray[np.float64] = one_way + one_way.T
    return both_ways


def _allowed(space: SearchSpace, domains: tuple[Value, ...]) -> NDArray[np.bool_]:
    pinned = [
        [bool(parameter.attributes.get(f"{ONLY}{domain}", 0.0)) for domain in domains] for parameter in space.parameters
    ]
    return np.array([row if any(row) else [True] * len(domains) for row in pinned])
