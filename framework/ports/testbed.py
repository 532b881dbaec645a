"""The testbed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from framework.model import (
    Application,
    Deployment,
    Expectation,
    Finding,
    Hook,
    Machine,
    Running,
    Told,
    Usage,
)

GO_PROGRAM = "a Go program"
Progress = Callable[[str], None]
"""Receives a short phrase at each step of a long operation."""


class Testbed(Protocol):
    """Runs deployments.  Level-based: from any state, it changes only the differences to the wanted deployment."""

    name: str
    modelled: bool  # True: its numbers are modelled, not measured

    def machine(self) -> Machine: ...

    def check(self, application: Application) -> None:
        """Raise MissingPrerequisite, with the remedy, where engine, compose or images are missing."""

    def notes(self, application: Application) -> Sequence[str]:
        """Return the differences of a study to the user's own deployment, in sentences."""

    def load_dataset(self, application: Application, default: Deployment, progress: Progress) -> None:
        """Fill the volumes and keep a copy; do nothing where data of this ``content_hash`` are kept already."""

    def deploy(self, deployment: Deployment, progress: Progress) -> Running:
        """Deploy from equal state; return when it is healthy and its parameters are read back.

        Raises DeploymentFailed, ParameterNotApplied.
        """

    def run_hook(self, running: Running, hook: Hook) -> str:
        """Run a one-shot command; return its output.  Raises TrialFailed with the output where its status is not 0."""

    def usage(self, running: Running) -> Usage: ...

    def statistics(self, running: Running) -> Mapping[str, Mapping[str, float]]:
        """Return service -> name -> count of hits, misses, evictions and items, where its type defines them."""

    def alive(self, running: Running) -> None:
        """Raise DeploymentFailed where a container of the deployment no longer runs."""

    def check_itself(self, failure: str) -> None:
        """Raise TestbedUnavailable where the testbed itself failed since the last deployment began.

        Asked after a failed trial, so that no configuration is blamed for a lost machine or a full disk.  ``failure``:
        what the trial failed with, with the last lines of a container's log.
        """

    def projects(self) -> Collection[str]:
        """Return every project on the testbed, those of other TAILOR_HOMEs included."""

    def clean(self, project: str, *, data: bool = False) -> Sequence[str]:
        """Remove a project, with ``data`` its copies of the user's data too; return the names of what was removed."""

    def clean_datasets(self) -> Sequence[str]:
        """Remove the kept data volumes; return their names."""

    def examine(self, applications: Sequence[Application]) -> Sequence[Finding]:
        """Return what this machine offers this testbed and these applications, what is missing, and its remedy."""


class Prover(Testbed, Protocol):
    """A testbed that can say what servers tell of their parameters, whatever was wanted."""

    def values(self, running: Running, expectations: Sequence[Expectation]) -> Mapping[str, Told]:
        """Return ``service.parameter`` -> what its server tells now."""

    def programs(self, running: Running) -> Mapping[str, Sequence[str]]:
        """Return service -> base names of the words that its processes' commands begin with, without repetition.

        GO_PROGRAM stands for an executable that Go built.  Services of which nothing is known are missing.
        """
