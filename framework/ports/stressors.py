"""Load on one shared resource beside a deployment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from framework.model import Running
from framework.model.stressors import Stressed, Stressor


class Stressors(Protocol):
    """Runs stressors beside a deployment."""

    def check(self) -> None:
        """Raises MissingPrerequisite with the remedy."""

    def beside(self, running: Running, stressor: Stressor) -> AbstractContextManager[Callable[[], Stressed]]:
        """A stressor runs inside the block; the callable that is yielded tells, after the block, what it did.

        Raises DeploymentFailed.
        """
