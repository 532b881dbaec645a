"""Reasons for a placement: the neighbours that harm each service most, and the services that it calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from framework.compose.placed import CPUSET, HOST
from framework.placement.profile import Profile
from framework.placement.slowdowns import attributes
from optimizer.placement.assignment import COST, PRESSURE, REMOTE, SENSITIVITY, named
from optimizer.space import SearchSpace, Value


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason for the CPUs, or the host, of a service.

    ``harm_shared``, ``harm_placed``: the harm that the profile predicts for it with all services on the same CPUs, and
    with this placement: sums of logs of slowdowns.  They rank services and do not predict latencies: sums over many
    neighbours are far beyond the measured range.  ``worst``: the neighbour that would harm it most, on which
    ``resource``; ``separated``: whether they run on different CPUs.  ``called``: of the services on its host, the one
    that it would wait longest for if that were on another; empty where there is none.  ``stays``: whether it talks to
    services there that have no parameter.
    """

    service: str
    cpus: str
    harm_shared: float
    harm_placed: float
    worst: str
    resource: str
    separated: bool
    called: str = ""
    stays: bool = False


def reasons(space: SearchSpace, configuration: Mapping[str, Value], profile: Profile) -> Sequence[Reason]:
    """Return the reason of each service; services without a profile are left out."""
    known = attributes(profile)
    placed = {
        parameter.group: parameter
        for parameter in space.parameters
        if parameter.group in known and parameter.name in (f"{parameter.group}.{CPUSET}", f"{parameter.group}.{HOST}")
    }
    place = {service: str(configuration[parameter.name]) for service, parameter in placed.items()}
    services = list(place)
    explained = []
    for service in services:
        costs = {other: _harm(known[service], known[other]) for other in services if other != service}
        worst = max(costs, key=lambda other: sum(costs[other].values()), default="")
        resource = max(costs[worst], key=lambda name: costs[worst][name], default="") if worst else ""
        near = [other for other in costs if place[other] == place[service]]
        remote, elsewhere = (named(placed[service].attributes, prefix) for prefix in (REMOTE, COST))
        explained.append(
            Reason(
                service,
                place[service],
                sum(sum(cost.values()) for cost in costs.values()),
                sum(sum(costs[other].values()) for other in near),
                worst,
                resource,
                worst not in near,
                max((other for other in near if other in remote), key=lambda other: remote[other], default=""),
                bool(elsewhere) and elsewhere.get(place[service], 0.0) < max(elsewhere.values()),
            )
        )
    return explained


def _harm(service: Mapping[str, float], other: Mapping[str, float]) -> Mapping[str, float]:
    """Return resource -> the log of the service's slowdown beside the other service."""
    pressure = named(other, PRESSURE)
    return {name: value * pressure.get(name, 0.0) for name, value in named(service, SENSITIVITY).items()}
