"""CPUs of so many physical cores for an application's services, and the rest for its load."""

from __future__ import annotations

from dataclasses import dataclass

from framework.compose.placed import CPUSET
from framework.errors import FieldError
from framework.model import Application
from framework.model.cpus import write_cpus
from framework.model.topology import Topology
from optimizer.space import Value


@dataclass(frozen=True, slots=True)
class NodePlace:
    """CPUs of one size: lists for the services and for the load generator, and whether these are the services' too."""

    services: str
    generator: str
    shared: bool


def place_of(topology: Topology, cores: int) -> NodePlace:
    """Return the CPUs of so many physical cores for the services, one socket after the other, the rest for the load.

    Where no core is left, the load generator shares all.  Raises FieldError.
    """
    of_core = topology.groups("core")
    first = {cpu.number: (cpu.package, cpu.node, cpu.core) for cpu in topology.cpus}
    ordered = sorted(of_core.values(), key=lambda cpus: first[cpus[0]])
    if not 1 <= cores <= len(ordered):
        raise FieldError("cores", cores, f"1 to {len(ordered)}, the cores of this machine")
    services = [cpu for core in ordered[:cores] for cpu in core]
    rest = [cpu for core in ordered[cores:] for cpu in core]
    return NodePlace(write_cpus(services), write_cpus(rest or services), shared=not rest)


def cpu_sets(application: Application, place: NodePlace) -> dict[str, Value]:
    """Return the CPU set of every service as values of a configuration; what takes the traces is beside the load.

    One-shot commands behind a profile have none: no container of theirs runs in a window.
    """
    tracing = application.tracing_service
    return {
        f"{service.name}.{CPUSET}": place.generator if service.name == tracing else place.services
        for service in application.services
        if not application.compose["services"][service.name].get("profiles")
    }
