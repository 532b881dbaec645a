"""Planning of machines: a need, catalogues of machine types and measurements of one node become ranked plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from framework.capacity.laws import MOST_TIMES, Prediction, ScalingLaw, fit
from framework.capacity.media import MediaComparison, compare_media
from framework.capacity.nodes import MeasuredNode
from framework.capacity.plan import CONFIDENCE, DRAWS, Plans, Request, plan
from framework.config.machine_catalogue import load_catalogue
from framework.config.need_file import load_need
from framework.errors import FieldError, UnknownName
from framework.model.capacity import Interval, MachineType, ScalingPoint


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A question for machines.

    ``reads``, ``writes``: measurements of one node; without ``writes``, a write is taken to cost as much as a read.
    ``speeds``: pattern of a processor's name -> speed of its cores, the measured ones' being 1.  ``regions``: empty for
    all.  ``media``: compare memory with disks too.
    """

    need: Path
    catalogues: Sequence[Path]
    reads: Sequence[ScalingPoint]
    writes: Sequence[ScalingPoint] = ()
    speeds: Mapping[str, Interval] = field(default_factory=dict)
    regions: Sequence[str] = ()
    currency: str = ""
    confidence: float = CONFIDENCE
    draws: int = DRAWS
    seed: int = 0
    most_nodes: int = 1_000
    most_plans: int = 10
    most_times: float = MOST_TIMES
    extrapolate: bool = False
    media: bool = False


@dataclass(frozen=True, slots=True)
class Law:
    """A fitted law in an answer: its name and parameters, and what it says at the largest measured size."""

    name: str
    g: float
    a: float
    b: float
    missed: Mapping[str, float | None]
    points: Sequence[ScalingPoint]
    largest: Prediction


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """Plans, and what they rest on.  ``writes``: None where writes are taken to cost as much as reads."""

    plans: Plans
    reads: Law
    writes: Law | None
    media: MediaComparison | None


def plan_machines(request: PlanRequest) -> PlanAnswer:
    """Read the files, fit the laws, rank the plans.  Raises InputError."""
    need = load_need(request.need)
    reads = fit(request.reads, request.seed)
    # Another seed: what is unknown about writes does not follow from what is unknown about reads.
    writes = fit(request.writes, request.seed + 1) if request.writes else None
    if request.most_times < 1:
        raise FieldError("most_times", request.most_times, "at least 1")
    node = MeasuredNode(reads, writes, request.speeds, request.most_times, request.extrapolate)
    machines = _machines(request)
    asked = Request(
        need, node, request.draws, request.seed, request.confidence, request.currency, request.most_nodes,
        request.most_plans,
    )  # fmt: skip
    plans = plan(asked, machines)
    media = compare_media(asked, machines) if request.media else None
    return PlanAnswer(plans, _law(reads), None if writes is None else _law(writes), media)


def _machines(request: PlanRequest) -> list[MachineType]:
    machines = [machine for path in request.catalogues for machine in load_catalogue(path)]
    known = {machine.region for machine in machines}
    for region in request.regions:
        if region not in known:
            raise UnknownName("region", region, known, field="region")
    return [machine for machine in machines if not request.regions or machine.region in request.regions]


def _law(law: ScalingLaw) -> Law:
    return Law(law.name, law.g, law.a, law.b, law.missed, law.points, law.predict(law.measured_cores))
