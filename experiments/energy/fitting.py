"""Fit of the estimator of processors that nobody has seen (framework/energy/unseen.py) to recorded readings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from framework.energy.unseen import Known, UnseenModel
from framework.model.energy import PowerCurve

Array = NDArray[np.float64]
COARSE = (np.arange(0.3, 1.31, 0.1), np.geomspace(0.2, 30.0, 31), np.geomspace(0.005, 20.0, 61))
"""Bends, full numbers and idle numbers that are tried first; then those between the neighbours of the best."""
FINE_BEND, FINE, FINE_STEPS = 0.1, 1.2, 15  # how far from the best, and by how many steps


@dataclass(frozen=True, slots=True)
class LoadReading:
    """Power of a machine's packages [W] at a utilisation, and what is known of them without a meter.

    ``recording``: where it is from.  ``peer_w``: what the tool that made the recording estimated.
    """

    known: Known
    recording: str
    utilisation: float
    watts: float
    peer_w: float


@dataclass(frozen=True, slots=True)
class Form:
    """A form of the estimator: idle and full power are each a number times something that is known.

    ``by_dies``: packages of one die and of several have an idle number of their own.  ``capped``: no more than TDP.
    """

    name: str
    idle: Callable[[Known], float]
    full: Callable[[Known], float]
    by_dies: bool = False
    capped: bool = False

    def curve(self, known: Known, numbers: Numbers) -> PowerCurve:
        full_w = numbers.full * self.full(known)
        if self.capped:
            full_w = min(full_w, known.tdp_w)
        return PowerCurve(min(numbers.idle[known.several_dies] * self.idle(known), full_w), full_w, numbers.bend)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of a form: idle of one die and of several, full, and the bend between them."""

    idle: tuple[float, float]
    full: float
    bend: float


def _tdp(known: Known) -> float:
    return known.tdp_w


def _core_ghz(known: Known) -> float:
    return known.cores * known.clock_ghz


OURS = Form("ours: idle TDP by dies, full core x GHz up to TDP", _tdp, _core_ghz, by_dies=True, capped=True)
OTHERS = (
    Form("idle and full shares of TDP", _tdp, _tdp),
    Form("idle and full shares of TDP, idle by dies", _tdp, _tdp, by_dies=True),
    Form("idle TDP, full per core", _tdp, lambda known: known.cores),
    Form("idle TDP, full core x GHz", _tdp, _core_ghz),
    Form("idle TDP, full core x GHz squared", _tdp, lambda known: known.cores * known.clock_ghz**2),
    Form("idle and full core x GHz", _core_ghz, _core_ghz),
    Form("idle a constant, full core x GHz", lambda known: 10.0, _core_ghz),
    Form("ours without the limit of TDP", _tdp, _core_ghz, by_dies=True),
)


def fitted_form(form: Form, groups: Sequence[Sequence[LoadReading]]) -> Numbers:
    """Return the numbers with the least mean |log(told / measured)|, on a grid; each group of readings counts the same.

    A kind of package (of one die, of several) that no group has gets the other's idle number.
    """
    readings = [reading for group in groups for reading in group]
    utilisation = np.array([reading.utilisation for reading in readings])
    measured = np.log([reading.watts for reading in readings])
    weights = np.concatenate([np.full(len(group), 1 / len(group)) for group in groups])
    limit = np.array([reading.known.tdp_w if form.capped else np.inf for reading in readings])
    full = np.array([form.full(reading.known) for reading in readings])
    idle = np.array([form.idle(reading.known) for reading in readings])
    several = np.array([form.by_dies and reading.known.several_dies for reading in readings])

    def least(bends: Array, fulls: Array, idles: Array) -> Numbers:
        best: tuple[float, Numbers] | None = None
        for bend in bends:
            part = utilisation**bend
            for number in fulls:
                full_w = np.minimum(number * full, limit)
                told = np.log(np.minimum(idles[:, None] * idle, full_w) * (1 - part) + full_w * part)
                numbers, cost = _best_idles(np.abs(told - measured) * weights, several, idles)
                if best is None or cost < best[0]:
                    best = cost, Numbers(numbers, float(number), float(bend))
        assert best is not None
        return best[1]

    near = least(*COARSE)
    around = np.geomspace(1 / FINE, FINE, FINE_STEPS)
    return least(
        near.bend + np.linspace(-FINE_BEND, FINE_BEND, FINE_STEPS),
        near.full * around,
        np.unique(np.concatenate([number * around for number in near.idle])),
    )


def fitted(groups: Sequence[Sequence[LoadReading]]) -> UnseenModel:
    """Return the estimator as Tailor uses it, fitted to groups of readings."""
    numbers = fitted_form(OURS, groups)
    return UnseenModel(numbers.idle, numbers.full, numbers.bend)


def _best_idles(costs: Array, several: NDArray[np.bool_], idles: Array) -> tuple[tuple[float, float], float]:
    """Return the idle numbers of both kinds, and the cost.  ``costs``: [idle number, reading]."""
    chosen, cost = list[float | None](), 0.0
    for of_kind in (~several, several):
        sums = costs[:, of_kind].sum(axis=1)
        chosen.append(float(idles[sums.argmin()]) if of_kind.any() else None)
        cost += float(sums.min())
    one, more = chosen
    return (one or more or 0.0, more or one or 0.0), cost
