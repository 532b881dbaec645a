"""Stressors, and the kernel's counters of scheduling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stressor:
    """Load on one shared resource.  ``kind``: a name that `tailor/stressor` knows.  ``cpus``: the list that it may use.

    ``duty``: the fraction of the time in which it works, above 0 to 1.
    """

    kind: str
    threads: int
    duty: float
    cpus: str

    @property
    def intensity(self) -> float:
        """The equivalent number of threads that work all the time."""
        return self.threads * self.duty


@dataclass(frozen=True, slots=True)
class Stressed:
    """The work of a stressor during a measurement: ``per_second``, in ``unit``, from so many ``reports``."""

    per_second: float
    unit: str
    reports: int


Threads = Mapping[int, tuple[int, int]]
"""Id of a thread -> (time that it waited for a CPU [ns], context switches) since it started."""


def scheduled(before: Threads, after: Threads) -> tuple[float, int]:
    """Return (wait for a CPU [s], context switches) between two readings, summed over threads that are in both."""
    both = before.keys() & after.keys()
    waited = sum(after[thread][0] - before[thread][0] for thread in both)
    return waited / 1e9, sum(after[thread][1] - before[thread][1] for thread in both)
