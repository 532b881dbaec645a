"""Where a deployment is run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from framework.model import (
    Application,
    Deployment,
    Finding,
    Hook,
    Machine,
    Running,
    Usage,
)

Progress = Callable[[str], None]
"""Called with a short phrase on each step of something long."""


class Testbed(Protocol):
    """Where a deployment is run.  Level-based: it makes what runs equal to what is wanted, from any state."""

    name: str
    modelled: bool  # True: its numbers are modelled, not measured

    def machine(self) -> Machine: ...

    def check(self, application: Application) -> None:
        """Raises MissingPrerequisite (engine, compose, images) with the remedy."""

    def notes(self, application: Application) -> Sequence[str]:
        """What is other in a study than in the user's own deployment, in sentences."""

    def load_dataset(self, application: Application, default: Deployment, progress: Progress) -> None:
        """Fill the volumes once and keep them; does nothing when data of this ``content_hash`` are kept."""

    def deploy(self, deployment: Deployment, progress: Progress) -> Running:
        """Equal state, up, healthy, parameters read back.  Raises DeploymentFailed, ParameterNotApplied."""

    def run_hook(self, running: Running, hook: Hook) -> str:
        """Run a one-shot command; returns its output.  Raises TrialFailed with it on a non-zero exit."""

    def usage(self, running: Running) -> Usage: ...

    def statistics(self, running: Running) -> Mapping[str, Mapping[str, float]]:
        """Hits, misses, evictions, items per service, as far as its type defines them."""

    def alive(self, running: Running) -> None:
        """Raises DeploymentFailed when a container of the deployment is not running any more."""

    def projects(self) -> Collection[str]:
        """Every project of which something is there, whoever's it is."""

    def clean(self, project: str, *, data: bool = False) -> Sequence[str]:
        """Remove what runs for ``project``, with ``data`` its copies of the user's data too; says what was removed."""

    def clean_datasets(self) -> Sequence[str]:
        """Remove the kept data volumes."""

    def examine(self, applications: Sequence[Application]) -> Sequence[Finding]:
        """What this machine can do for this testbed and these applications, what is missing and how to get it."""
