"""Ranked plans for a need over a catalogue of machine types: numbers, costs, what binds, and why others were refused.

A plan has as many machines as meet the need in a stated share of the cases, drawn from the need's intervals and from
the laws that fit the measurements.  All machine types see the same cases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from framework.capacity.demand import Array, Demand, demand
from framework.capacity.nodes import DOMAINS, MeasuredNode, counted, refusal, rounded, total
from framework.errors import FieldError
from framework.model.capacity import HOURS_PER_YEAR, Interval, MachineType, Need

DRAWS = 2_000
CONFIDENCE = 0.9
"""Share of the cases in which a plan's machines are enough."""
LOW, HIGH = 0.05, 0.95  # of the cases: the ends of the intervals of machines and costs
MORE = 1.2  # of an amount, for the sensitivity
AMOUNTS = ("reads", "writes", "stored", "record", "clients")
SHORTLIST = 20  # types, for questions that are asked again and again


@dataclass(frozen=True, slots=True)
class Request:
    """A question for plans.  ``currency``: by default the only one of the catalogue.  ``most_nodes``: of one plan."""

    need: Need
    node: MeasuredNode
    draws: int = DRAWS
    seed: int = 0
    confidence: float = CONFIDENCE
    currency: str = ""
    most_nodes: int = 1_000
    most_plans: int = 10


@dataclass(frozen=True, slots=True)
class PlanOfYear:
    """A plan after ``year`` years of growth; costs of that year, at today's price.  No nodes: none are enough."""

    year: int
    nodes: int | None
    cost_per_year: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Machines of one type for a need.

    ``needed``: nodes that are needed, in the likely case and in 90 % of the cases.  ``binding``: the resource that asks
    for most of them.  ``by_resource``: nodes that each resource alone would take.  ``cost_range``: per hour, of
    ``needed``.  ``speed``: of a core, the measured one's being 1; None where it is taken to be the same.
    """

    machine: MachineType
    nodes: int
    needed: Interval
    binding: str
    by_resource: dict[str, int]
    cost_per_hour: float
    cost_per_year: float
    cost_range: Interval
    cost_per_million_requests: float
    extrapolated: bool
    speed: Interval | None
    years: tuple[PlanOfYear, ...] = ()


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
class Plans:
    """Answer: plans, the cheapest first, at most as many as were asked for of ``count`` that there are."""

    need: Need
    currency: str
    plans: tuple[Plan, ...]
    count: int
    refused: tuple[Refused, ...]
    sensitivity: tuple[Sensitivity, ...] = ()


@dataclass(frozen=True)
class _Counted:
    """Types in the order of their cost, with their nodes: planned, and at both ends and in the likely case."""

    machines: list[MachineType]
    nodes: Array
    low: Array
    likely: Array
    high: Array
    by_resource: dict[str, Array] = field(default_factory=dict)

    @property
    def costs(self) -> Array:
        """Cost per hour of each type's plan."""
        prices = [machine.price_per_hour or math.nan for machine in self.machines]
        result: Array = self.nodes * np.array(prices, np.float64)
        return result


def plan(request: Request, catalogue: Sequence[MachineType]) -> Plans:
    """Return plans for a need over a catalogue.  Raises FieldError for a request that is not possible."""
    _check(request, catalogue)
    currency = request.currency or catalogue[0].currency
    need = request.need
    reasons = {index: refusal(machine, need, request.node, currency) for index, machine in enumerate(catalogue)}
    usable = [machine for index, machine in enumerate(catalogue) if not reasons[index]]
    refused = [Refused(machine, reasons[index]) for index, machine in enumerate(catalogue) if reasons[index]]
    if not usable:
        return Plans(need, currency, (), 0, tuple(refused))
    wanted = demand(need, request.draws, request.seed)
    counts = _count(request, usable, wanted)
    enough = counts.nodes <= request.most_nodes
    for row in np.flatnonzero(~enough):
        refused.append(Refused(usable[row], _excuse(counts, int(row), request)))
    ranked = sorted(np.flatnonzero(enough).tolist(), key=lambda row: (counts.costs[row], usable[row].name, row))
    short = [usable[row] for row in ranked[:SHORTLIST]]
    years = _years(request, short[: request.most_plans], wanted)
    plans = [_plan(request, counts, row, wanted, years[rank]) for rank, row in enumerate(ranked[: request.most_plans])]
    sensitivity = _sensitivities(request, short, wanted, plans[0].cost_per_hour) if plans else ()
    return Plans(need, currency, tuple(plans), len(ranked), tuple(refused), sensitivity)


def _check(request: Request, catalogue: Sequence[MachineType]) -> None:
    currencies = sorted({machine.currency for machine in catalogue})
    if not catalogue:
        raise FieldError("catalogue", "nothing", "at least one machine type")
    if not request.currency and len(currencies) > 1:
        raise FieldError("currency", ", ".join(currencies), "one of them, as prices are not converted")
    if request.currency and request.currency not in currencies:
        raise FieldError("currency", request.currency, ", ".join(currencies))
    if not 1 <= request.draws <= 1_000_000:
        raise FieldError("draws", request.draws, "1 to 1000000")
    if not 0 < request.confidence <= 1:
        raise FieldError("confidence", request.confidence, "above 0, at most 1")
    if request.most_nodes < 1 or request.most_plans < 1:
        raise FieldError("most_nodes", min(request.most_nodes, request.most_plans), "at least 1")


def _count(request: Request, machines: list[MachineType], wanted: Demand) -> _Counted:
    nodes = counted(machines, wanted, request.node, request.seed)
    low, planned, high = _at(total(nodes, wanted.need), request.confidence)
    likely = total({name: array[:, :1] for name, array in nodes.items()}, wanted.need)[:, 0]
    shape = (len(machines), wanted.cases)
    alone = {name: np.broadcast_to(array, shape) for name, array in nodes.items()}
    return _Counted(
        machines, np.maximum(planned, likely), np.minimum(low, likely), likely, np.maximum(high, likely), alone
    )


def _at(nodes: Array, confidence: float) -> tuple[Array, Array, Array]:
    """Return nodes at both ends of the interval and at the confidence asked for: values that draws have."""
    draws = nodes.shape[1] - 1
    ranks = [max(0, math.ceil(share * draws - 1e-9) - 1) for share in (LOW, confidence, HIGH)]
    ordered = np.partition(nodes[:, 1:], sorted(set(ranks)), axis=1)
    low, planned, high = (ordered[:, rank] for rank in ranks)
    return low, planned, high


def _alone(counts: _Counted, row: int, request: Request) -> dict[str, float]:
    """Return resource -> nodes that it alone would take, where enough has the plan's meaning."""
    alone = {}
    for name, array in counts.by_resource.items():
        nodes = array[row : row + 1]
        alone[name] = float(max(_at(nodes, request.confidence)[1][0], nodes[0, 0]))
    return alone


def _excuse(counts: _Counted, row: int, request: Request) -> str:
    alone = _alone(counts, row, request)
    binding = max(alone, key=lambda name: alone[name])
    if math.isinf(alone[binding]):
        return {
            "cpu": "a request takes longer than the limit on its cores, even when it never waits",
            "memory": "the connections of all clients fill its memory",
        }[binding]
    return f"{binding} would take {counts.nodes[row]:.0f} nodes, more than the {request.most_nodes} allowed"


def _plan(request: Request, counts: _Counted, row: int, wanted: Demand, years: tuple[PlanOfYear, ...]) -> Plan:
    machine, alone = counts.machines[row], _alone(counts, row, request)
    price = machine.price_per_hour or math.nan
    needed = Interval(float(counts.low[row]), float(counts.likely[row]), float(counts.high[row]))
    millions = float(wanted.reads[0] + wanted.writes[0]) * 3_600 / 1e6  # in an hour
    cost = float(counts.nodes[row]) * price
    return Plan(
        machine=machine,
        nodes=int(counts.nodes[row]),
        needed=needed,
        # Where domains ask for as many as another resource, that resource is not the reason.
        binding=max(alone, key=lambda name: (alone[name], name == DOMAINS)),
        by_resource={name: int(rounded(np.asarray(nodes), request.need)) for name, nodes in alone.items()},
        cost_per_hour=cost,
        cost_per_year=cost * HOURS_PER_YEAR,
        cost_range=needed.times(price),
        cost_per_million_requests=cost / millions,
        extrapolated=request.node.extrapolates(machine),
        speed=request.node.speed(machine),
        years=years,
    )


def _years(request: Request, machines: list[MachineType], wanted: Demand) -> list[tuple[PlanOfYear, ...]]:
    """Return the years of each machine type's plan, the first being year 0."""
    rows: list[list[PlanOfYear]] = [[] for _ in machines]
    for year in range(request.need.years + 1 if machines and request.need.years else 0):
        counts = _count(request, machines, wanted.after(year))
        for row, (nodes, cost) in enumerate(zip(counts.nodes.tolist(), counts.costs.tolist(), strict=True)):
            possible = math.isfinite(nodes)
            entry = PlanOfYear(year, int(nodes) if possible else None, cost * HOURS_PER_YEAR if possible else None)
            rows[row].append(entry)
    return [tuple(row) for row in rows]


def _sensitivities(
    request: Request, machines: list[MachineType], wanted: Demand, today: float
) -> tuple[Sensitivity, ...]:
    """Return what 20 % more of each amount costs with the cheapest of the machine types of the shortlist."""
    changed = {name: wanted.scaled(name, MORE) for name in AMOUNTS if getattr(request.need, name).high > 0}
    if request.need.latency_s is not None:
        changed["latency limit / 1.2"] = wanted.scaled("latency_s", 1 / MORE)
    rows = []
    for name, case in changed.items():
        counts = _count(request, machines, case)
        costs = np.where(counts.nodes <= request.most_nodes, counts.costs, np.inf)
        row = int(np.argmin(costs))
        cost = float(costs[row])
        possible = math.isfinite(cost)
        rows.append(
            Sensitivity(
                amount=name,
                cost_per_hour=cost if possible else None,
                change=cost / today - 1 if possible else None,
                machine=machines[row].name if possible else "",
            )
        )
    return tuple(rows)
