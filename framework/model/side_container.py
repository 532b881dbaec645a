"""A container that runs beside a deployment, on its network: a load generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SideContainer:
    """What to run.

    ``files``: path in the container -> content.  ``cpus``: a list of CPUs, empty for all; ``cpu_shares``: its weight,
    where a service has 1,024.  ``capabilities``: beyond those that a container has by default.  ``limit_s``: after so
    long it is killed.
    """

    image: str
    command: tuple[str, ...]
    name: str
    project: str
    network: str
    labels: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    cpus: str = ""
    cpu_shares: int = 1024
    capabilities: tuple[str, ...] = ()
    limit_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended: its exit status, what it wrote to standard error, and whether it was killed for its time."""

    status: int
    errors: str
    late: bool
