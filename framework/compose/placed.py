"""Placement as parameters: ``service.cpuset`` is the list of CPUs that a service may use, or ``all``.

On a testbed of several hosts ``service.host`` is the host that a service runs on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from framework.model import Expectation, Placement, Probe
from optimizer.space import Value

CPUSET = "cpuset"
HOST = "host"
HOST_LABEL = "tailor.host"
"""The label of a swarm's node: the host of application.yaml that it is."""
ALL = "all"


def placed(place: Placement, services: Iterable[str], configuration: Mapping[str, Value]) -> Placement:
    """Add the CPU sets of a configuration to a placement."""
    given = {name: str(configuration.get(f"{name}.{CPUSET}", ALL)) for name in services}
    return replace(place, cpusets={**place.cpusets, **{name: cpus for name, cpus in given.items() if cpus != ALL}})


def expected(service: str, cpus: str) -> Expectation:
    """Return the CPUs that the kernel must report for a service, to be read back."""
    return Expectation(service, CPUSET, cpus, Probe("cpus", r"^(\S+)$"))


def on_host(deploy: Mapping[str, Any] | None, host: str) -> dict[str, Any]:
    """Return a compose service's ``deploy`` with the constraint by which `docker stack deploy` puts it on a host."""
    deploy = dict(deploy or {})
    placement = dict(deploy.get("placement") or {})
    constraint = f"node.labels.{HOST_LABEL} == {host}"
    return {**deploy, "placement": {**placement, "constraints": [*(placement.get("constraints") or []), constraint]}}


def moved(services: Iterable[str], configuration: Mapping[str, Value]) -> dict[str, str]:
    """Return service -> host of the services whose host a configuration says."""
    given = {name: configuration.get(f"{name}.{HOST}") for name in services}
    return {name: str(host) for name, host in given.items() if host is not None}
