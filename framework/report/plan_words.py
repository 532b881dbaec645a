"""Words about plans of machines, for the terminal and for pages."""

from __future__ import annotations

import math
from collections import Counter

from framework.capacity.answers import CurrentState, Law, Plan, Plans, TuningGain
from framework.model.capacity import Interval


def plan_name(plan: Plan) -> str:
    """Return the machine type and region of a plan, marked where its law was asked beyond its bound."""
    mark = " (extrapolated)" if plan.extrapolated else ""
    return f"{plan.machine.name} {plan.machine.region}".rstrip() + mark


def range_in_words(costs: Interval) -> str:
    """Return the ends of an interval of costs; a law that may break down has none above."""
    low, high = (f"{end:,.2f}" if math.isfinite(end) else "no end" for end in (costs.low, costs.high))
    return f"{low} to {high}"


def gain_in_words(gain: TuningGain, currency: str) -> str:
    """Return how sure the money is that tuning saves."""
    said = f"{range_in_words(gain.saving_per_hour)} {currency} per hour in 90 % of the cases"
    if gain.unanswered:
        said += f", without the {gain.unanswered:.1%} in which no number of machines is enough with either"
    return said


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
    name = f"{state.current.nodes} x {state.machine.name}" + (" (extrapolated)" if state.extrapolated else "")
    said = [f"now: {name}: {state.cost_per_hour:,.2f} {currency}/hour, {state.cost_per_year:,.0f} {currency}/year"]
    if state.binding and state.needed is None:  # they were counted
        said.append(f"they are not enough: {state.reason}, for {state.binding}")
    elif state.reason:
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
