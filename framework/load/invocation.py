"""How a load generator of somebody else is called, and what it leaves: the contract between its file and its runner.

A generator's file says what to run and how to read what it wrote; whether that happens in a container or on this
machine is the runner's concern.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from framework.load.request_rows import RequestRows
from framework.model import ExternalLoad, LoadPlan

TAIL_S = 5.0
"""Time for which a generator that drops open requests at its end goes on after the window, so that those of the window
are answered."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run of a generator.

    ``target``: address of the entry, without a path.  ``scripts``: the directory that has the user's script, in which
    the generator runs.  ``results``: the directory that it writes to.  ``text``: of the script, empty for none.
    """

    plan: LoadPlan
    load: ExternalLoad
    target: str
    scripts: str
    results: str
    text: bytes = b""

    @property
    def script(self) -> str:
        """The script's path where the generator runs; empty for none."""
        return f"{self.scripts}/{Path(self.load.script).name}" if self.load.script else ""

    @property
    def seconds(self) -> float:
        """Length of warm-up and window [s]."""
        return self.plan.warmup_s + self.plan.window_s


@dataclass(frozen=True, slots=True)
class Invocation:
    """Words and files that run a generator.

    ``files``: name -> content, placed beside the user's script.  ``outputs``: files that it writes in the results'
    directory.  ``then``: a second command, once the load is over, which finds these files in their place and whose
    ``converted`` are read.  ``seconds``: how long the load takes.
    """

    command: Sequence[str]
    seconds: float
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    then: Sequence[str] = ()
    converted: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that ended: its output, the directory of this machine that has the files it wrote, and when it ended."""

    output: bytes
    results: Path
    ended_ns: int


@dataclass(frozen=True, slots=True)
class Reported:
    """The requests that a generator reported, and what is known of their times.

    ``timing``: as in LoadResult.  ``warmup_s``, ``window_s``: where they are the generator's own and not the plan's.
    """

    rows: RequestRows
    timing: Literal["due", "sent", "distribution"]
    warmup_s: float | None = None
    window_s: float | None = None


class Tool(Protocol):
    """A load generator of somebody else."""

    @property
    def name(self) -> str:
        """The name by which application.yaml calls it."""

    def invocation(self, task: Task) -> Invocation:
        """Return how it is run.  Raises InputError for a script that it cannot run at the plan's rate or time."""

    def read(self, task: Task, finished: Finished) -> Reported:
        """Read what it wrote.  Raises LoadFailed where that cannot be understood."""


def number(value: float) -> str:
    """Write a number without an exponent, to a millionth."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def whole_rate(rate_rps: float) -> tuple[int, int]:
    """Return (requests, seconds): a rate as a whole number of requests in 1 s, or in 1,000 s where it has fractions."""
    return (round(rate_rps), 1) if rate_rps == round(rate_rps) else (round(rate_rps * 1000), 1000)


def whole_seconds(seconds: float) -> int:
    """Return at least so many seconds, for generators that count whole ones."""
    return math.ceil(seconds - 1e-9)
