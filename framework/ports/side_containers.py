"""Side containers of a deployment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from framework.model.side_container import Ended, SideContainer


class SideContainers(Protocol):
    """Runs containers on the network of a deployment."""

    def has_image(self, name: str) -> bool: ...

    def cores(self) -> int:
        """Return the number of cores of the machine on which the containers run."""

    def run(self, wanted: SideContainer, each: Callable[[bytes], None]) -> Ended:
        """Run a container to its end and remove it; call ``each`` with every line of its output as it is written.

        Files of ``wanted.outputs`` that it wrote are copied before it is removed.
        Raises DeploymentFailed, TestbedUnavailable.
        """
