"""Answers of the planner as data: plans with their numbers, costs and reasons, and what they are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from framework.capacity.laws import Prediction
from framework.model.capacity import HOURS_PER_YEAR, Current, Interval, MachineType, Need, ScalingPoint


@dataclass(frozen=True, slots=True)
class PlanOfYear:
    """A plan after ``year`` years of growth; costs of that year, at today's price.

    No nodes: no number is enough.  No cost: they are more than a plan may have.  ``binding``: the resource that asks
    for most of them.
    """

    year: int
    nodes: int | None
    cost_per_year: float | None
    binding: str = ""


@dataclass(frozen=True, slots=True)
class ServiceShare:
    """One service of an application in a plan.

    ``share``: of the CPU time.  ``busy_cores``: in the mean, over all nodes, in the likely case.  ``nodes_apart``: that
    it would take alone, were each service on nodes of its own.
    """

    service: str
    share: float
    busy_cores: float
    nodes_apart: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Machines of one type for a need.

    ``needed``: nodes that are needed, in the likely case and in 90 % of the cases.  ``binding``: the resource that asks
    for most of them.  ``by_resource``: nodes that each resource alone takes, not rounded.  ``cost_range``: per hour, of
    ``needed``.  ``speed``: of a core, the measured one's being 1; None where it is taken to be the same.  ``services``:
    the largest first; none where CPU time by service was not measured.  ``watts``: of all machines, an estimate with
    its 95 % interval; None where nothing is known of the processor.
    """

    machine: MachineType
    nodes: int
    needed: Interval
    binding: str
    by_resource: Mapping[str, float]
    cost_per_hour: float
    cost_per_year: float
    cost_range: Interval
    cost_per_million_requests: float
    extrapolated: bool
    speed: Interval | None
    years: tuple[PlanOfYear, ...] = ()
    services: tuple[ServiceShare, ...] = ()
    watts: Interval | None = None

    @property
    def kwh_per_year(self) -> Interval | None:
        """Energy of a year, as they are busy in the likely case."""
        return None if self.watts is None else self.watts.times(HOURS_PER_YEAR / 1e3)

    @property
    def nodes_apart(self) -> int:
        """Nodes that the services would take, were each on nodes of its own."""
        return sum(service.nodes_apart for service in self.services)

    @property
    def cost_of_years(self) -> float | None:
        """Cost of all years, today's being year 0; None where no number of nodes is enough in one, or none is asked."""
        costs = [year.cost_per_year for year in self.years]
        return None if not costs or None in costs else sum(cost or 0.0 for cost in costs)


@dataclass(frozen=True, slots=True)
class Refused:
    """A machine type that no plan was made of, and why."""

    machine: MachineType
    reason: str


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Cost per hour of the cheapest plan with 20 % more of one amount; None where no plan is left."""

    amount: str
    cost_per_hour: float | None
    change: float | None  # share of today's cost
    machine: str


@dataclass(frozen=True, slots=True)
class CheapestOfYear:
    """The cheapest plan of all types after ``year`` years of growth, as if machines were chosen anew; None: none is."""

    year: int
    machine: str
    nodes: int | None
    cost_per_year: float | None


@dataclass(frozen=True, slots=True)
class AvailabilityCost:
    """Cost per hour of the cheapest plan with so many copies in so many failure domains; None where no plan is left."""

    replicas: int
    failure_domains: int
    cost_per_hour: float | None
    machine: str


@dataclass(frozen=True, slots=True)
class CurrentState:
    """The machines that run now, for the same need.

    ``needed``: nodes of their type that a plan would have; None where none are enough, and then ``reason`` says why.
    ``covered``: share of the cases in which those that run are enough.  ``enough``: whether they are as many as a plan
    would have.  ``last_year``: of growth, in which they still are; None where they are not today.  ``saving_per_hour``,
    ``saving``: of the cheapest plan, and its share of today's cost; None without a plan.  ``extrapolated``: their cores
    are many times more, or fewer, than were measured.
    """

    current: Current
    machine: MachineType
    needed: int | None
    covered: float
    enough: bool
    binding: str
    cost_per_hour: float
    cost_per_year: float
    last_year: int | None
    saving_per_hour: float | None
    saving: float | None
    reason: str = ""
    extrapolated: bool = False


@dataclass(frozen=True, slots=True)
class Plans:
    """Answer: plans, the cheapest first, at most as many as were asked for of ``count`` that there are.

    ``most_nodes``: of one plan.
    """

    need: Need
    currency: str
    plans: tuple[Plan, ...]
    count: int
    refused: tuple[Refused, ...]
    sensitivity: tuple[Sensitivity, ...] = ()
    by_year: tuple[CheapestOfYear, ...] = ()
    availability: tuple[AvailabilityCost, ...] = ()
    current: CurrentState | None = None
    most_nodes: int = 1_000


@dataclass(frozen=True, slots=True)
class MediaCosts:
    """Cheapest plans for so many bytes of records; None where there is none."""

    stored: float
    memory: Plan | None
    disk: Plan | None

    @property
    def disk_is_cheaper(self) -> bool:
        if self.disk is None:
            return False
        return self.memory is None or self.disk.cost_per_hour < self.memory.cost_per_hour


@dataclass(frozen=True, slots=True)
class MediaComparison:
    """Costs by size.  ``crossover``: bytes from which disks are cheaper up to the largest size; None: they are not."""

    rows: tuple[MediaCosts, ...]
    crossover: float | None


@dataclass(frozen=True, slots=True)
class TuningGain:
    """The worth of a tuned configuration in money: the cheapest plan with each, for the same need and machines.

    ``saving_per_hour``: the interval has 90 % of the cases.  ``saving``: share of the default's cost.  ``measured``:
    both configurations were swept; else ``cpu_ratio``, CPU time per request of the tuned to the default with its
    interval (low, likely, high), from the pairs of the study's verdict, stands for it.  ``unanswered``: share of the
    cases in which no number of either's machines is enough; they are left out.
    """

    study: str
    default: Plan
    tuned: Plan
    saving_per_hour: Interval
    saving_per_year: float
    saving: float
    shown: bool
    measured: bool
    cpu_ratio: Interval | None = None
    unanswered: float = 0.0


@dataclass(frozen=True, slots=True)
class Law:
    """A fitted law in an answer: its name and parameters, what it says at the largest measured size, and its curve.

    ``ceiling``: the most requests/s on any number of cores, because ``narrow``, a service, can use only some; None
    where there is no such limit.  ``cheapest``: what the law says at the cores of the cheapest plan's machine; None
    without a plan.
    """

    name: str
    g: float
    a: float
    b: float
    missed: Mapping[str, float | None]
    points: tuple[ScalingPoint, ...]
    largest: Prediction
    curve: tuple[Prediction, ...] = ()
    ceiling: float | None = None
    narrow: str = ""
    cheapest: Prediction | None = None


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """Plans, and what they rest on.

    ``writes``: None where writes are taken to cost as much as reads.  ``arm``: the configuration of the plans' node.
    ``notes``: on how it was measured.  ``at``: when the plans were made.
    """

    plans: Plans
    reads: Law
    writes: Law | None
    media: MediaComparison | None
    gain: TuningGain | None = None
    application: str = ""
    modelled: bool = False
    arm: str = "default"
    notes: tuple[str, ...] = ()
    confidence: float = 0.9
    at: str = ""
