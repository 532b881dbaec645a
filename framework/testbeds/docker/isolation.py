"""Pinning of running services to CPUs, on a Docker Engine."""

from __future__ import annotations

from collections.abc import Mapping

from framework.model import Running
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.owner import Owner


class DockerIsolation:
    """Pinning by the engine; implements ``framework.ports.isolation.Isolation``."""

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine or Engine()

    def pin(self, running: Running, cpus: Mapping[str, str]) -> None:
        """Move services to lists of CPUs (service -> "0-3,8"); they go on running.  Raises DeploymentFailed."""
        owner = Owner.project(running.deployment.project)
        in_parallel(lambda name: self._engine.set_cpus(running.containers[name].id, cpus[name], owner), cpus)
