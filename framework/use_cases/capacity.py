"""Planning of machines: a need, catalogues of machine types and measurements of one node become ranked plans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from framework.capacity.answers import Law, PlanAnswer, Plans, TuningGain
from framework.capacity.counting import CONFIDENCE, DRAWS, Request
from framework.capacity.demand import demand
from framework.capacity.laws import MOST_TIMES, ScalingLaw, fit, misfits
from framework.capacity.measured import node_of, notes, software_notes, with_cpu_ratio
from framework.capacity.media import check_media, compare_media
from framework.capacity.nodes import MeasuredNode
from framework.capacity.plan import currency_of, plan
from framework.capacity.questions import machine_of, tuning_gain
from framework.capacity.records import PlanRecords
from framework.config.machine_catalogue import load_catalogue, shipped
from framework.config.need_file import error_in_need, load_need
from framework.config.writing import write_text
from framework.errors import FieldError, UnknownName
from framework.model.capacity import Interval, MachineType, Need, ScalingPoint
from framework.model.measurement import Estimate
from framework.model.node_measurement import READS, WRITES, NodeMeasurement
from framework.report.plan_page import plan_page

PROCESSORS = 12  # that a message names
CURVE = 25  # points of a law's curve, up to the most times the measured cores


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A question for machines.

    ``catalogues``: empty for those that come with Tailor.  One of ``node``, sweeps of an application, and ``reads``,
    points given by hand; without ``writes``, a write is taken to cost as much as a read.  ``speeds``: pattern of a
    processor's name -> speed of its cores, the measured ones' being 1.  ``regions``: empty for all.  ``media``: compare
    memory with disks too.  ``study``: whose tuned configuration the gain is told of; ``cpu_ratio``: of its CPU time per
    request to the default's, for points by hand.
    """

    need: Path | Need
    catalogues: Sequence[Path] = ()
    node: NodeMeasurement | None = None
    reads: Sequence[ScalingPoint] = ()
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
    study: str = ""
    cpu_ratio: Estimate | None = None


@dataclass(frozen=True, slots=True)
class MadePlan:
    """A plan that is kept, and its page; None where it has none yet."""

    id: str
    answer: PlanAnswer
    page: Path | None


class MachinePlans:
    """Plans of machines, kept below TAILOR_HOME."""

    def __init__(self, home: Path) -> None:
        self.records = PlanRecords(home)

    def make(self, request: PlanRequest, page: Path | None = None, *, drawn: bool = True) -> MadePlan:
        """Plan, keep the answer, and write its page; by default beside it.  Raises InputError, StoreError.

        ``drawn``: whether there is a page, whose figures take longer than the plan.
        """
        if page is not None:
            check_page(page)
        answer = plan_machines(request)
        name = self.records.add(answer)
        path = write_text(page or self.records.page_path(name), plan_page(answer)) if drawn else None
        return MadePlan(name, answer, path)


def check_page(page: Path) -> None:
    """Refuse a page in a directory that does not exist: it is more likely mistyped than wanted.  Raises FieldError."""
    if not page.parent.is_dir():
        raise FieldError("page", str(page), "a file in a directory that exists")


@dataclass(frozen=True, slots=True)
class Inputs:
    """Content of the files of a request.  ``machines``: of the regions asked for; ``known``: of all."""

    need: Need
    machines: Sequence[MachineType]
    known: Sequence[MachineType]


def read_inputs(request: PlanRequest) -> Inputs:
    """Read and check all that is not the node: worth doing before a node is measured.  Raises InputError."""
    if not request.most_times >= 1:  # NaN neither
        raise FieldError("most_times", request.most_times, "at least 1")
    need = load_need(request.need) if isinstance(request.need, Path) else request.need
    if request.media:
        check_media(need)
    known = [machine for path in request.catalogues or shipped().values() for machine in load_catalogue(path)]
    machines = _in_regions(known, request.regions)
    currency = currency_of(request.currency, machines)
    _check_speeds(request.speeds, known)
    _check_current(request, need, known, currency)
    return Inputs(need, machines, known)


def plan_machines(request: PlanRequest) -> PlanAnswer:
    """Read the files, fit the laws, rank the plans.  Raises InputError."""
    default, tuned = _nodes(request)
    read = read_inputs(request)
    need, machines = read.need, read.machines
    asked = Request(
        need, tuned or default, request.draws, request.seed, request.confidence, request.currency, request.most_nodes,
        request.most_plans,
    )  # fmt: skip
    plans = plan(asked, machines, read.known)
    # What runs now is compared once, and may be in a region that is not planned in.
    asked = replace(asked, need=replace(need, current=None))
    gain = None if tuned is None else _gain(request, asked, default, plans, machines)
    measured = request.node
    cores = plans.plans[0].machine.busy_cores() if plans.plans else None
    return PlanAnswer(
        plans=plans,
        reads=law_of(asked.node, asked.node.reads, cores),
        writes=None if asked.node.writes is None else law_of(asked.node, asked.node.writes, cores),
        media=compare_media(asked, machines) if request.media else None,
        gain=gain,
        application="" if measured is None else measured.application,
        modelled=measured is not None and measured.modelled,
        arm="default" if tuned is None else "tuned",
        notes=(
            *(() if measured is None else (*notes(measured), *software_notes(asked.node))),
            *misfits(asked.node.reads, READS),
            *(() if asked.node.writes is None else misfits(asked.node.writes, WRITES)),
        ),
        confidence=request.confidence,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def law_of(node: MeasuredNode, law: ScalingLaw, cores: float | None) -> Law:
    """Return a law of a node for an answer, with its curve from one core to the most that it is asked about.

    ``cores``: of the cheapest plan's machine; None without a plan.
    """
    most = node.most_times * law.measured_cores
    curve = tuple(law.predict(float(cores), extrapolate=True) for cores in np.geomspace(1, most, CURVE))
    ceiling = law.ceiling if math.isfinite(law.ceiling) else None
    return Law(
        law.name, law.g, law.a, law.b, dict(law.missed), law.points, law.predict(law.measured_cores), curve,
        ceiling, law.narrow[0].name if law.narrow else "",
        None if cores is None else law.predict(cores, extrapolate=True),
    )  # fmt: skip


def _nodes(request: PlanRequest) -> tuple[MeasuredNode, MeasuredNode | None]:
    """Return the node with the default configuration, and with the tuned one where there is one.  Raises InputError."""
    if (request.node is None) == (not request.reads):
        given = "neither points nor a measured node" if request.node is None else "points beside a measured node"
        raise FieldError("reads", given, "points of one node, or an application whose node was measured")
    if request.node is not None and request.writes:
        raise FieldError("writes", "points beside a measured node", "points beside those of reads")
    if request.node is not None:
        default = _asked(request, node_of(request.node, seed=request.seed))
        if request.study and request.node.study == request.study:
            return default, _asked(request, node_of(request.node, "tuned", request.seed + 10))
    else:
        reads = fit(request.reads, request.seed)
        # Another seed: what is unknown about writes does not follow from what is unknown about reads.
        writes = fit(request.writes, request.seed + 1) if request.writes else None
        default = _asked(request, MeasuredNode(reads, writes))
    if request.cpu_ratio is None:
        return default, None
    ratio, seed = request.cpu_ratio, request.seed + 10
    slower = None if default.writes is None else with_cpu_ratio(default.writes, ratio, seed)
    return default, replace(default, reads=with_cpu_ratio(default.reads, ratio, seed), writes=slower)


def _asked(request: PlanRequest, node: MeasuredNode) -> MeasuredNode:
    """Return a node with what the request says of other machines."""
    return replace(node, speeds=request.speeds, most_times=request.most_times, extrapolate=request.extrapolate)


def _gain(
    request: PlanRequest, asked: Request, default: MeasuredNode, plans: Plans, machines: Sequence[MachineType]
) -> TuningGain | None:
    """Return the gain of tuning, where there is a plan with each configuration."""
    untuned = replace(asked, node=default)
    today = replace(untuned, need=replace(untuned.need, years=0), most_plans=1)
    before = plan(today, machines).plans
    if not before or not plans.plans:
        return None
    wanted = demand(asked.need, asked.draws, asked.seed)
    return tuning_gain(request.study, (untuned, asked), (before[0], plans.plans[0]), wanted, ratio=request.cpu_ratio)


def _in_regions(machines: Sequence[MachineType], regions: Sequence[str]) -> list[MachineType]:
    known = {machine.region for machine in machines if machine.region}
    for region in regions:
        if not known:
            raise FieldError("region", region, "none with this catalogue, which has no regions")
        if region not in known:
            raise UnknownName("region", region, known, field="region")
    return [machine for machine in machines if not regions or machine.region in regions]


def _check_speeds(speeds: Mapping[str, Interval], machines: Sequence[MachineType]) -> None:
    """Refuse a pattern that no processor fits: a mistyped one would be ignored.  Raises FieldError."""
    names = sorted({machine.processor for machine in machines})
    for pattern in speeds:
        if not any(fnmatchcase(name.lower(), pattern.lower()) for name in names):
            told = [name for name in names if name]
            shown = ", ".join(told[:PROCESSORS]) + (
                f" and {len(told) - PROCESSORS} more" if len(told) > PROCESSORS else ""
            )
            allowed = f"of {shown}; * stands for any text" if told else "*, as the catalogue does not tell them"
            raise FieldError("speeds", pattern, f"a pattern that fits the whole name of a processor {allowed}")


def _check_current(request: PlanRequest, need: Need, known: Sequence[MachineType], currency: str) -> None:
    """Refuse machines of today that the catalogue does not price.  Raises FileError where the need is a file."""
    if need.current is None:
        return
    try:
        machine_of(need.current, known, currency)
    except FieldError as error:
        if isinstance(request.need, Path):
            raise error_in_need(request.need, "current", error.found, error.allowed) from None
        raise FieldError("need.current", error.found, error.allowed) from None
