"""What runs beside a service: stressors, and how the kernel schedules threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stressor:
    """Load on one shared resource.  ``kind``: as `tailor/stressor` knows it.  ``duty``: of the time, to 1.

    ``cpus``: the list of CPUs that it may use.
    """

    kind: str
    threads: int
    duty: float
    cpus: str

    @property
    def intensity(self) -> float:
        """Threads that work all the time."""
        return self.threads * self.duty


@dataclass(frozen=True, slots=True)
class Stressed:
    """What a stressor did while something was measured."""

    per_second: float
    unit: str
    reports: int


Threads = Mapping[int, tuple[int, int]]
"""Thread -> (nanoseconds that it waited for a CPU, context switches) since it started."""


def scheduled(before: Threads, after: Threads) -> tuple[float, int]:
    """(seconds waited, switches) between two readings, of the threads that were there at both."""
    both = before.keys() & after.keys()
    waited = sum(after[one][0] - before[one][0] for one in both)
    return waited / 1e9, sum(after[one][1] - before[one][1] for one in both)
