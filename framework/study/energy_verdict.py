"""The comparison of two measurements of energy, round by round: which takes more for the same work?

Rounds of both are measured in alternation, so that each pair of them shares the state of the machine; a power source's
own error, which all windows share, cancels in their ratio.  The ratio is the Hodges-Lehmann estimate of the pairs' log
ratios with its exact interval (see framework.objective.verdict).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from framework.energy.answers import EnergyAnswer, RunAnswer
from framework.objective.verdict import hodges_lehmann

FEWEST = 6  # pairs: with fewer there is no 95 % interval

Quantity = Callable[[RunAnswer], float | None]


def _cycles(run: RunAnswer) -> float | None:
    return None if run.io is None or run.io.cpio is None else run.io.cpio.value


def _joules(share: str) -> Quantity:
    return lambda run: run.io.eio[share].value if run.io is not None and share in run.io.eio else None


QUANTITIES: Mapping[str, Quantity] = {
    "joules per request, all that is metered": lambda run: None if run.whole_j is None else run.whole_j.value,
    "joules per request, application": lambda run: None if run.application_j is None else run.application_j.value,
    "CPU time per request": lambda run: math.fsum(row.user_us + row.system_us for row in run.services),
    "kernel time per request": lambda run: math.fsum(row.system_us for row in run.services),
    "cycles per I/O (cpio)": _cycles,
    "joules per I/O (eio, own IP)": _joules("own"),
    "joules per I/O (eio, IP 0)": _joules("0"),
    "joules per I/O (eio, IP 0.7)": _joules("0.7"),
}
"""Quantities that are compared, of one round's windows at one rate."""


@dataclass(frozen=True, slots=True)
class EnergyRatio:
    """The second's quantity divided by the first's, with its 95 % interval; infinite with fewer than six pairs.

    ``without``: rounds left out because a side has no value above 0 there, as the joules of a small application have
    where idle power varies: they are not comparable then.
    """

    quantity: str
    rate_rps: float
    value: float
    low: float
    high: float
    pairs: int
    without: int = 0

    @property
    def shown(self) -> bool:
        """Whether the interval excludes equality; never where rounds had to be left out."""
        return not self.without and (self.low > 1.0 or self.high < 1.0)


@dataclass(frozen=True, slots=True)
class EnergyComparison:
    """Two measurements and the ratios between them.  ``pages``: of each."""

    first: str
    second: str
    ratios: tuple[EnergyRatio, ...]
    notes: tuple[str, ...]
    pages: tuple[Path, ...] = ()


def ratios(first: Mapping[int, EnergyAnswer], second: Mapping[int, EnergyAnswer]) -> tuple[EnergyRatio, ...]:
    """Return the ratios of all quantities at all rates, from round -> the answer of that round's windows alone."""
    rounds = sorted(first.keys() & second.keys())
    rates = sorted({run.rate_rps for answer in first.values() for run in answer.runs})
    compared = []
    for rate in rates:
        for name, of in QUANTITIES.items():
            values = [(_value(first[number], rate, of), _value(second[number], rate, of)) for number in rounds]
            logs = [math.log(after / before) for before, after in values if before and after]
            if logs:
                estimate = hodges_lehmann(logs)
                value, low, high = (math.exp(side) for side in (estimate.value, estimate.low, estimate.high))
                compared.append(EnergyRatio(name, rate, value, low, high, len(logs), len(values) - len(logs)))
    return tuple(compared)


def _value(answer: EnergyAnswer, rate: float, of: Quantity) -> float | None:
    """Return a positive quantity; None where there is none."""
    run = next((run for run in answer.runs if run.rate_rps == rate), None)
    value = None if run is None else of(run)
    return value if value is not None and math.isfinite(value) and value > 0 else None
