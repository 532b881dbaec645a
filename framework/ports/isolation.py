"""Who shares CPUs with whom while a deployment runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from framework.model import Running


class Isolation(Protocol):
    """Moves services that run."""

    def pin(self, running: Running, cpus: Mapping[str, str]) -> None:
        """Move services to lists of CPUs; they go on running.  Raises DeploymentFailed."""
