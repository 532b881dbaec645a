"""Side containers, which run on the network of a deployment: load generators, stressors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SideContainer:
    """A container to run on the network of a deployment.

    ``also``: further networks that it joins.  ``files``: path in the container -> content.  ``cpus``: a list of CPUs,
    empty for all; ``cpu_shares``: its CPU weight (a service has 1,024).  ``capabilities``: in addition to a container's
    defaults.  ``limit_s``: it is killed after so many seconds.
    """

    image: str
    command: tuple[str, ...]
    name: str
    project: str
    network: str
    also: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    cpus: str = ""
    cpu_shares: int = 1024
    capabilities: tuple[str, ...] = ()
    limit_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a side container: exit status, standard error, and whether it was killed at its time limit."""

    status: int
    errors: str
    late: bool
