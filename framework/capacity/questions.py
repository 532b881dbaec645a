"""Questions about a plan that count nodes again: other amounts, later years, other copies, what runs now, another node.

All see the cases of the plan itself, so that no answer differs from another by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from framework.capacity.answers import (
    AvailabilityCost,
    CheapestOfYear,
    CurrentState,
    Plan,
    PlanOfYear,
    Sensitivity,
    TuningGain,
)
from framework.capacity.counting import HIGH, LOW, Counted, Request, count
from framework.capacity.demand import Demand
from framework.capacity.nodes import refusal
from framework.config.checked import did_you_mean
from framework.errors import FieldError
from framework.model.capacity import HOURS_PER_YEAR, Current, Interval, MachineType
from framework.model.measurement import Estimate

MORE = 1.2  # of an amount, for the sensitivity
AMOUNTS = ("reads", "writes", "stored", "record", "clients")
MOST_COPIES = 3


def years_of(
    request: Request, machines: Sequence[MachineType], wanted: Demand, shown: int
) -> tuple[list[tuple[PlanOfYear, ...]], tuple[CheapestOfYear, ...]]:
    """Return the years of the plans of the first ``shown`` types, from year 0, and the cheapest plan of each year."""
    rows: list[list[PlanOfYear]] = [[] for _ in range(shown)]
    cheapest: list[CheapestOfYear] = []
    for year in range(request.need.years + 1 if machines and request.need.years else 0):
        counts = count(request, machines, wanted.after(year))
        for row, nodes, cost in zip(range(shown), counts.nodes.tolist(), counts.costs.tolist(), strict=False):
            yearly = cost * HOURS_PER_YEAR if nodes <= request.most_nodes else None
            binding = counts.binding(row, request.confidence)
            rows[row].append(PlanOfYear(year, int(nodes) if math.isfinite(nodes) else None, yearly, binding))
        best = _cheapest(counts, request)
        cheapest.append(
            CheapestOfYear(year, "", None, None)
            if best is None
            else CheapestOfYear(
                year, machines[best].name, int(counts.nodes[best]), float(counts.costs[best]) * HOURS_PER_YEAR
            )
        )
    return [tuple(row) for row in rows], tuple(cheapest)


def sensitivities(
    request: Request, machines: Sequence[MachineType], wanted: Demand, today: float
) -> tuple[Sensitivity, ...]:
    """Return what 20 % more of each amount costs with the cheapest of the machine types."""
    changed = {name: wanted.scaled(name, MORE) for name in AMOUNTS if getattr(request.need, name).high > 0}
    if request.need.latency_s is not None:
        changed["latency limit / 1.2"] = wanted.scaled("latency_s", 1 / MORE)
    rows = []
    for name, case in changed.items():
        counts = count(request, machines, case)
        row = _cheapest(counts, request)
        if row is None:
            rows.append(Sensitivity(name, None, None, ""))
        else:
            cost = float(counts.costs[row])
            rows.append(Sensitivity(name, cost, cost / today - 1, machines[row].name))
    return tuple(rows)


def availability_costs(
    request: Request, machines: Sequence[MachineType], wanted: Demand
) -> tuple[AvailabilityCost, ...]:
    """Return what the need would cost with one to three copies, in one failure domain or in one for each copy."""
    need = request.need
    asked = {(copies, domains) for copies in range(1, MOST_COPIES + 1) for domains in {1, copies}}
    rows = []
    for replicas, domains in sorted(asked | {(need.replicas, need.failure_domains)}):
        changed = replace(need, replicas=replicas, failure_domains=domains)
        counts = count(replace(request, need=changed), machines, replace(wanted, need=changed))
        row = _cheapest(counts, request)
        cost = None if row is None else float(counts.costs[row])
        rows.append(AvailabilityCost(replicas, domains, cost, "" if row is None else machines[row].name))
    return tuple(rows)


def current_state(
    request: Request, catalogue: Sequence[MachineType], currency: str, wanted: Demand, proposed: Plan | None
) -> CurrentState | None:
    """Return how the machines that run now meet the need; None where it states none.  Raises FieldError."""
    current = request.need.current
    if current is None:
        return None
    machine = machine_of(current, catalogue, currency)
    cost = current.nodes * (machine.price_per_hour or math.nan)
    saving = None if proposed is None else cost - proposed.cost_per_hour
    state = CurrentState(
        current, machine, None, 0.0, False, "", cost, cost * HOURS_PER_YEAR, None, saving,
        None if saving is None else saving / cost,
        reason=refusal(machine, request.need, replace(request.node, extrapolate=True), currency),
    )  # fmt: skip
    return state if state.reason else _counted_state(request, state, wanted)


def _counted_state(request: Request, state: CurrentState, wanted: Demand) -> CurrentState:
    nodes = state.current.nodes
    counts = count(request, [state.machine], wanted)
    needed = float(counts.nodes[0])
    last_year = None
    for year in range(request.need.years + 1):
        if not float(count(request, [state.machine], wanted.after(year)).nodes[0]) <= nodes:
            break
        last_year = year
    possible = math.isfinite(needed)
    return replace(
        state,
        needed=int(needed) if possible else None,
        covered=float(np.mean(counts.of_cases(0, request.need)[1:] <= nodes)),
        enough=needed <= nodes,
        binding=counts.binding(0, request.confidence),
        last_year=last_year,
        reason="" if possible else "no number of them is enough",
        extrapolated=request.node.unlike(state.machine),
    )


def machine_of(current: Current, catalogue: Sequence[MachineType], currency: str) -> MachineType:
    """Return the type of the machines that run now, at the price that is paid.  Raises FieldError."""
    named = [machine for machine in catalogue if machine.name == current.machine]
    if not named:
        known = sorted({machine.name for machine in catalogue})
        hint = did_you_mean(current.machine, known)
        raise FieldError("current", current.machine, f"one of the {len(known)} types of the catalogue{hint}")
    for key in ("region", "purchase"):
        wanted = getattr(current, key)
        of_key = [machine for machine in named if getattr(machine, key) == wanted] if wanted else named
        choices = sorted({getattr(machine, key) for machine in named})
        if not of_key:
            raise FieldError(
                "current",
                f"{key} {wanted!r}",
                f"the catalogue prices {current.machine} only with {_among(key, choices)}",
            )
        if len({getattr(machine, key) for machine in of_key}) > 1:
            raise FieldError("current", f"no {key}", f"the key {key!r} with {_among('', choices)}")
        named = of_key
    machine = named[0]
    if current.price_per_hour is not None:
        machine = replace(machine, price_per_hour=current.price_per_hour, currency=currency)
    if machine.price_per_hour is None:
        raise FieldError("current", machine.name, "a machine type with a price, or the key 'price_per_hour' beside it")
    if machine.currency != currency:
        raise FieldError("current", f"a price in {machine.currency}", f"a price in {currency}, as none is converted")
    return machine


def _among(key: str, choices: Sequence[str]) -> str:
    return f"{key} one of {', '.join(choices)}".strip() if len(choices) > 1 else f"{key} {choices[0]}".strip()


def tuning_gain(
    study: str,
    requests: tuple[Request, Request],
    plans: tuple[Plan, Plan],
    wanted: Demand,
    *,
    ratio: Estimate | None,
) -> TuningGain:
    """Compare the cheapest plan of the default node with that of the tuned one.  ``ratio``: see TuningGain.

    What is unknown about the need is the same in both; what is unknown about the two nodes is not.
    """
    of_cases = []
    for request, plan in zip(requests, plans, strict=True):
        nodes = count(request, [plan.machine], wanted).of_cases(0, request.need)[1:]
        of_cases.append(nodes * (plan.machine.price_per_hour or math.nan))
    costs = np.array(of_cases)
    # Where only one of them has no answer, the saving has no end.
    answered = np.isfinite(costs).any(axis=0)
    saved = costs[0, answered] - costs[1, answered]
    default, tuned = plans
    saving = default.cost_per_hour - tuned.cost_per_hour
    ends = np.quantile(saved, [LOW, HIGH], method="inverted_cdf") if len(saved) else np.array([-math.inf, math.inf])
    interval = Interval(min(float(ends[0]), saving), saving, max(float(ends[1]), saving))
    return TuningGain(
        study=study,
        default=default,
        tuned=tuned,
        saving_per_hour=interval,
        saving_per_year=saving * HOURS_PER_YEAR,
        saving=saving / default.cost_per_hour,
        shown=interval.low > 0,
        measured=ratio is None,
        cpu_ratio=None if ratio is None else Interval(ratio.low, ratio.value, ratio.high),
        unanswered=1 - float(np.mean(answered)),
    )


def _cheapest(counts: Counted, request: Request) -> int | None:
    """Return the row of the cheapest type with few enough nodes; None without one."""
    costs = np.where(counts.nodes <= request.most_nodes, counts.costs, np.inf)
    row = int(np.argmin(costs))
    return row if math.isfinite(float(costs[row])) else None
