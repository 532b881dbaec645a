"""The machine that a guard works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from framework.ports.actuator import Actuator
from framework.ports.job_runner import JobRunner
from framework.ports.sensor import Sensor


class GuardedMachine(Protocol):
    """Sensors and actuators for one compose project that runs (LC), and the place for BE's jobs.

    Nothing is touched before ``prepare``.
    """

    @property
    def cores(self) -> int:
        """CPUs to divide."""

    @property
    def ways(self) -> int:
        """Ways of the last-level cache to divide; 0: this machine cannot."""

    @property
    def actuators(self) -> Sequence[Actuator]:
        """In the order in which BE loses what they give."""

    @property
    def needed(self) -> frozenset[str]:
        """Names of the actuators without which nothing may run."""

    @property
    def sensors(self) -> Sequence[Sensor]: ...

    @property
    def runner(self) -> JobRunner: ...

    def services(self) -> Sequence[str]:
        """Return LC's services that run, sorted.  Raises TestbedUnavailable."""

    def used(self, pid: int) -> float | None:
        """Return the CPU seconds of the group of a job's process; None where it has ended."""

    def recover(self) -> Sequence[str]:
        """Give back what an earlier guard of this TAILOR_HOME left changed; returns what it could not."""

    def prepare(self) -> None:
        """Make the place for BE's jobs.  Raises KnobRefused."""

    def end_work(self) -> None:
        """End every process of BE's jobs, and wait until the runner shows how each of them ended.

        Raises TestbedUnavailable, DeploymentFailed where the runner does not show it; the processes have ended even so.
        """

    def restore(self) -> Sequence[str]:
        """Give everything back, and end what is left of BE's jobs; an attempt that had ended well stays to be noted.

        Returns what could not be given back, and why.
        """
