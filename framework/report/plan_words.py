"""Words about plans of machines, for the terminal and for pages."""

from __future__ import annotations

import math
from collections import Counter

from framework.capacity.answers import CurrentState, Law, Plan, Plans
from framework.model.capacity import Interval


def plan_name(plan: Plan) -> str:
    """Return the machine type and region of a plan, marked where its law was asked beyond its bound."""
    mark = " (extrapolated)" if plan.extrapolated else ""
    return f"{plan.machine.name} {plan.machine.region}".rstrip() + mark


def range_in_words(costs: Interval) -> str:
    """Return the ends of an interval of costs; a law that may break down has none above."""
    return f"{costs.low:,.2f} to " + (f"{costs.high:,.2f}" if math.isfinite(costs.high) else "no end")


def ceiling_in_words(kind: str, law: Law) -> str:
    """Return a sentence about the ceiling of a law."""
    return (
        f"{law.narrow} uses only some cores, however many there are: a node answers at most {law.ceiling or 0:,.0f} "
        f"{kind}/s"
    )


def refusals(plans: Plans) -> Counter[str]:
    """Return reason -> number of machine types that were refused for it."""
    return Counter(refused.reason for refused in plans.refused)


def state_in_words(state: CurrentState, currency: str) -> list[str]:
    """Return sentences about the machines that run now."""
    name = f"{state.current.nodes} x {state.machine.name}"
    said = [f"now: {name}: {state.cost_per_hour:,.2f} {currency}/hour, {state.cost_per_year:,.0f} {currency}/year"]
    if state.reason:
        said.append(f"it cannot be said whether they are enough: {state.reason}")
    elif state.enough:
        until = "" if not state.last_year else f", up to year {state.last_year} of growth"
        said.append(
            f"they are enough in {state.covered:.0%} of the cases{until}; a plan of that type has {state.needed}"
        )
    else:
        said.append(
            f"they are enough in {state.covered:.0%} of the cases only; a plan of that type has {state.needed}, for "
            f"{state.binding}"
        )
    if state.saving_per_hour is not None and state.saving is not None:
        word = "less" if state.saving_per_hour >= 0 else "more"
        said.append(
            f"the cheapest plan costs {abs(state.saving_per_hour):,.2f} {currency}/hour {word} "
            f"({-state.saving:+.0%} of today's cost)"
        )
    return said
