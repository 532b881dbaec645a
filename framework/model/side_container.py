"""Side containers, which run on the network of a deployment: load generators, stressors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SideContainer:
    """A container to run on the network of a deployment.

    ``also``: further networks that it joins.  ``files``: path in the container -> content.  ``cpus``: a list of CPUs,
    empty for all; ``cpu_shares``: its CPU weight (a service has 1,024).  ``capabilities``: in addition to a container's
    defaults.  ``limit_s``: it is killed after so many seconds.  ``program``: takes the place of the image's entry
    point; empty: that one runs, with ``command``.  ``directory``: in which it runs.  ``writable``: directories that any
    user of the image can write.  ``outputs``: file in the container -> file of this machine to which it is copied at
    the end, where there is one.
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
    program: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    writable: tuple[str, ...] = ()
    outputs: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a side container: exit status, standard error, and whether it was killed at its time limit."""

    status: int
    errors: str
    late: bool
