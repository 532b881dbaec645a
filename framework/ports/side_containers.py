"""Containers beside a deployment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from framework.model.side_container import Ended, SideContainer


class SideContainers(Protocol):
    """Runs containers beside a deployment, on its network."""

    def has_image(self, name: str) -> bool: ...
    def cores(self) -> int:
        """Of the machine that they run on."""

    def run(self, wanted: SideContainer, each: Callable[[bytes], None]) -> Ended:
        """To its end; ``each`` gets every line of its output as it comes, and nothing of the container is left.

        Raises DeploymentFailed, TestbedUnavailable.
        """
