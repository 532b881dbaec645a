"""CPU pinning of services while a deployment runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from framework.model import Running


class Isolation(Protocol):
    """Moves running services to other CPUs."""

    def pin(self, running: Running, cpus: Mapping[str, str]) -> None:
        """Move services to CPUs, given as service -> list of CPUs; they keep running.  Raises DeploymentFailed."""
