"""The power of processors that nobody here has seen measured, by what is known of them without a meter.

At full load a core uses about as many joules per cycle of its nominal clock whatever the processor; so a package takes
that times its cores and its clock, and no more than its thermal design power (TDP), which is a limit that few reach.
Without load it takes a share of its TDP, more where it has several dies, whose links and memory controllers stay
awake.  Between the two, power bends with the utilisation, since a few busy cores wake what all share.

The numbers are fitted to recordings of RAPL counters against CPU load of four processors, and scored by leaving one of
them out: experiments/energy/estimator prints both.
"""

from __future__ import annotations

from dataclasses import dataclass

from framework.energy.generations import AMD
from framework.energy.processor import Processor
from framework.model.energy import PowerCurve

SEVERAL_DIES = frozenset({"Sapphire Rapids", "Emerald Rapids", "Granite Rapids", "Sierra Forest"})
"""Intel's generations whose larger processors have several dies in a package."""
ZEN = 23  # the first of AMD's families whose server processors have several dies


@dataclass(frozen=True, slots=True)
class Known:
    """Facts of the processors of a machine, all packages: TDP [W], cores, nominal clock [GHz], several dies each."""

    tdp_w: float
    cores: float
    clock_ghz: float
    several_dies: bool


@dataclass(frozen=True, slots=True)
class UnseenModel:
    """Numbers of the estimator.

    ``idle_share``: of TDP without load, of processors of one die and of several.  ``core_w_per_ghz``: of a core at full
    load.  ``bend``: as in ``PowerCurve``.
    """

    idle_share: tuple[float, float]
    core_w_per_ghz: float
    bend: float

    def curve(self, known: Known, error: float = 0.0) -> PowerCurve:
        """Return the power of the packages by their utilisation."""
        full_w = min(self.core_w_per_ghz * known.cores * known.clock_ghz, known.tdp_w)
        idle_w = min(self.idle_share[known.several_dies] * known.tdp_w, full_w)
        return PowerCurve(idle_w, full_w, self.bend, error, "estimated by TDP, cores and clock")


FITTED = UnseenModel(idle_share=(0.087, 0.198), core_w_per_ghz=3.42, bend=0.69)
"""Fitted to all four processors."""

UNSEEN_ERROR = 0.93
"""Half-width of the 95 % interval of the watts, as a logarithm: of processors that were left out of the fit."""

BEND = FITTED.bend
SHAPE_ERROR = 0.93
"""Half-width of the 95 % interval, as a logarithm, of watts between an idle and a full power that are both known."""


def has_several_dies(processor: Processor) -> bool:
    """Say whether a processor's package has several dies, by its generation; as far as it is known."""
    if processor.vendor == AMD or processor.short.startswith(("epyc", "ryzen")):
        return processor.family < 0 or processor.family >= ZEN
    generation = processor.generation
    return generation is not None and generation.name in SEVERAL_DIES
