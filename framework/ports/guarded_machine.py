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

    def restore(self) -> Sequence[str]:
        """Give everything back; BE's jobs have ended.  Returns what could not be given back, and why."""
