"""Why services share CPUs, or do not, in a placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from framework.compose.placed import CPUSET
from framework.placement.profile import Profile
from framework.placement.slowdowns import attributes
from optimizer.placement.assignment import PRESSURE, SENSITIVITY, named
from optimizer.space import SearchSpace, Value


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a service stands where it does.

    ``together``, ``left``: the harm that the profile predicts for it with all services on the same CPUs, and with this
    placement: sums of logs of slowdowns.  Good for an order: sums over many neighbours are far beyond what was
    measured, and their exponentials are no slowdowns that anybody will see.  ``worst``: the neighbour that would harm
    it most, on which ``resource``, and whether it is kept apart from it.
    """

    service: str
    cpus: str
    together: float
    left: float
    worst: str
    resource: str
    separated: bool


def reasons(space: SearchSpace, configuration: Mapping[str, Value], profile: Profile) -> Sequence[Reason]:
    """In words that a person can check against the profile; services that were not profiled are left out."""
    known = attributes(profile)
    services = [one.group for one in space.parameters if one.group in known]
    place = {one: str(configuration[f"{one}.{CPUSET}"]) for one in services}
    found = []
    for service in services:
        costs = {other: _harm(known[service], known[other]) for other in services if other != service}
        worst = max(costs, key=lambda other: sum(costs[other].values()), default="")
        resource = max(costs[worst], key=lambda one: costs[worst][one], default="") if worst else ""
        near = [other for other in costs if place[other] == place[service]]
        found.append(
            Reason(
                service,
                place[service],
                sum(sum(cost.values()) for cost in costs.values()),
                sum(sum(costs[other].values()) for other in near),
                worst,
                resource,
                worst not in near,
            )
        )
    return found


def _harm(service: Mapping[str, float], other: Mapping[str, float]) -> Mapping[str, float]:
    """Resource -> the log of the service's slowdown beside the other."""
    put = named(other, PRESSURE)
    return {one: suffered * put.get(one, 0.0) for one, suffered in named(service, SENSITIVITY).items()}
