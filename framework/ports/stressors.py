"""Load on one shared resource of a deployment's machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from framework.model import Running
from framework.model.stressors import Stressed, Stressor


class Stressors(Protocol):
    """Runs stressors on the machine of a deployment."""

    def check(self) -> None:
        """Raise MissingPrerequisite, with the remedy, where stressors cannot run."""

    def stress(self, running: Running, stressor: Stressor) -> AbstractContextManager[Callable[[], Stressed]]:
        """Run a stressor inside the block; after the block, the callable returns the work that it did.

        Raises DeploymentFailed.
        """
