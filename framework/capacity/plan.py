"""Ranked plans for a need over a catalogue of machine types: numbers, costs, what binds, and why others were refused.

A plan has as many machines as meet the need in a stated share of the cases, drawn from the need's intervals and from
the laws that fit the measurements.  All machine types see the same cases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from framework.capacity.answers import Plan, PlanOfYear, Plans, Refused
from framework.capacity.counting import Counted, Request, count
from framework.capacity.demand import Demand, demand
from framework.capacity.energy import plan_power
from framework.capacity.nodes import ASSUMED_GBPS, refusal
from framework.capacity.questions import availability_costs, current_state, sensitivities, years_of
from framework.capacity.services import service_shares
from framework.errors import FieldError
from framework.model.capacity import HOURS_PER_YEAR, Interval, MachineType


def plan(request: Request, catalogue: Sequence[MachineType], known: Sequence[MachineType] = ()) -> Plans:
    """Return plans for a need over a catalogue.  Raises FieldError for a request that is not possible.

    ``known``: machine types among which the one that runs now is looked up; by default the catalogue.
    """
    _check(request)
    currency = currency_of(request.currency, catalogue)
    need = request.need
    wanted = demand(need, request.draws, request.seed)
    reasons = {index: refusal(machine, need, request.node, currency) for index, machine in enumerate(catalogue)}
    usable = [machine for index, machine in enumerate(catalogue) if not reasons[index]]
    refused = [Refused(machine, reasons[index]) for index, machine in enumerate(catalogue) if reasons[index]]
    if not usable:
        current = current_state(request, known or catalogue, currency, wanted, None)
        return Plans(need, currency, (), 0, tuple(refused), current=current, most_nodes=request.most_nodes)
    counts = count(request, usable, wanted)
    enough = counts.nodes <= request.most_nodes
    for row in np.flatnonzero(~enough):
        refused.append(Refused(usable[row], _excuse(counts, int(row), request)))
    ranked = sorted(np.flatnonzero(enough).tolist(), key=lambda row: (counts.costs[row], usable[row].name, row))
    # Questions are asked about all types: those that are dear today, or too many, may be the cheapest then.
    asked = [usable[row] for row in (*ranked, *np.flatnonzero(~enough).tolist())]
    shown = ranked[: request.most_plans]
    years, by_year = years_of(request, asked, wanted, len(shown))
    plans = [_plan(request, counts, row, wanted, years[rank]) for rank, row in enumerate(shown)]
    cheapest = plans[0] if plans else None
    return Plans(
        need,
        currency,
        tuple(plans),
        len(ranked),
        tuple(refused),
        sensitivity=sensitivities(request, asked, wanted, cheapest.cost_per_hour) if cheapest else (),
        by_year=by_year,
        availability=availability_costs(request, asked, wanted) if cheapest else (),
        current=current_state(request, known or catalogue, currency, wanted, cheapest),
        most_nodes=request.most_nodes,
    )


def currency_of(wanted: str, catalogue: Sequence[MachineType]) -> str:
    """Return the currency of plans over a catalogue; ``wanted``: empty for its only one.  Raises FieldError."""
    currencies = sorted({machine.currency for machine in catalogue})
    if not catalogue:
        raise FieldError("catalogue", "nothing", "at least one machine type")
    if not wanted and len(currencies) > 1:
        raise FieldError("currency", ", ".join(currencies), "one of them, as prices are not converted")
    if wanted and wanted not in currencies:
        raise FieldError("currency", wanted, ", ".join(currencies))
    return wanted or currencies[0]


def _check(request: Request) -> None:
    if not 1 <= request.draws <= 1_000_000:
        raise FieldError("draws", request.draws, "1 to 1000000")
    if not 0 < request.confidence <= 1:
        raise FieldError("confidence", request.confidence, "above 0, at most 1")
    if request.most_nodes < 1 or request.most_plans < 1:
        raise FieldError("most_nodes", min(request.most_nodes, request.most_plans), "at least 1")


def _excuse(counts: Counted, row: int, request: Request) -> str:
    alone = counts.alone(row, request.confidence)
    binding = max(alone, key=lambda name: alone[name])
    if math.isinf(alone[binding]):
        software = "the software and " if request.node.software_bytes else ""
        return {
            "cpu": "a request takes longer than the limit on its cores, even when it never waits",
            "memory": f"{software}the connections of all clients fill its memory",
        }.get(binding, f"{binding}: a request takes longer than the limit, however few wait for them")
    assumed = counts.machines[row].network_gbps is None and binding.startswith("network")
    return (
        f"{binding} would take {counts.nodes[row]:,.0f} nodes, more than the {request.most_nodes:,} allowed"
        + f" (with {1e3 * ASSUMED_GBPS:g} Mbit/s each, as the catalogue does not tell their network)" * assumed
    )


def _plan(request: Request, counts: Counted, row: int, wanted: Demand, years: tuple[PlanOfYear, ...]) -> Plan:
    machine, alone = counts.machines[row], counts.alone(row, request.confidence)
    price = machine.price_per_hour or math.nan
    needed = Interval(float(counts.low[row]), float(counts.likely[row]), float(counts.high[row]))
    millions = float(wanted.reads[0] + wanted.writes[0]) * 3_600 / 1e6  # in an hour
    cost = float(counts.nodes[row]) * price
    return Plan(
        machine=machine,
        nodes=int(counts.nodes[row]),
        needed=needed,
        binding=counts.binding(row, request.confidence),
        by_resource=alone,
        cost_per_hour=cost,
        cost_per_year=cost * HOURS_PER_YEAR,
        cost_range=needed.times(price),
        cost_per_million_requests=cost / millions,
        extrapolated=request.node.unlike(machine),
        speed=request.node.speed(machine),
        years=years,
        services=service_shares(request.node, machine, wanted, alone),
        watts=plan_power(request.node, machine, wanted, int(counts.nodes[row])),
    )
