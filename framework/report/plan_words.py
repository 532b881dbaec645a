"""Words about plans of machines, for the terminal and for pages."""

from __future__ import annotations

import math
from collections import Counter

from framework.capacity.answers import CurrentState, Law, Plan, Plans, TuningGain
from framework.capacity.nodes import ASSUMED_GBPS, MISSING
from framework.model.capacity import Interval, MachineType


def number_of(count: int, thing: str, things: str = "") -> str:
    """Return a number with its noun; ``things``: the plural, where it is not made with an s."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def plan_name(plan: Plan) -> str:
    """Return the machine type and region of a plan, with the marks of what is not known about it."""
    return f"{plan.machine.name} {plan.machine.region}".rstrip() + marks(plan.machine, plan.extrapolated)


def marks(machine: MachineType, extrapolated: bool) -> str:
    """Return marks: a law that was asked beyond its bound, a network that the catalogue does not tell."""
    told = ["extrapolated"] * extrapolated + ["network assumed"] * (machine.network_gbps is None)
    return f" ({', '.join(told)})" if told else ""


def assumption(plans: Plans) -> str:
    """Return a sentence about the network that is assumed where the catalogue does not tell it; empty: nowhere."""
    if all(plan.machine.network_gbps is not None for plan in plans.plans):
        return ""
    return (
        f"network assumed: the catalogue does not tell it, and {1e3 * ASSUMED_GBPS:g} Mbit/s of each machine are "
        "counted on, which every one has; with more, fewer may be enough"
    )


def not_considered(plans: Plans) -> str:
    """Return a sentence about the types of which the catalogue tells too little; empty where there are none."""
    lacking: Counter[str] = Counter()
    types = 0
    for refused in plans.refused:
        names = refused.reason.removeprefix(MISSING).split(", ") if refused.reason.startswith(MISSING) else []
        if refused.machine.network_gbps is None and refused.reason.startswith("network"):
            names = ["network"]  # what is assumed instead is too little
        lacking.update(names)
        types += bool(names)
    if not types:
        return ""
    told = ", ".join(f"{name} of {count:,}" for name, count in lacking.most_common())
    return (
        f"{number_of(types, 'type')} could not be considered, as the catalogue does not tell what the need asks about: "
        f"{told}"
    )


def horizon(plans: Plans) -> str:
    """Return what to have from the start for the last year of growth; empty where none is looked at."""
    if not plans.by_year or not plans.plans:
        return ""
    last = plans.by_year[-1]
    if last.nodes is None or last.cost_per_year is None:
        return f"no plan is enough in year {last.year}, with at most {plans.most_nodes:,} nodes"
    return (
        f"enough for year {last.year} from the start: {last.nodes:,} x {last.machine}, {last.cost_per_year:,.0f} "
        f"{plans.currency}/year"
    )


def year_in_words(plans: Plans, row: int) -> str:
    """Return a sentence about the cheapest type of today in a year, and about the cheapest type of that year."""
    first, year, best = plans.plans[0], plans.plans[0].years[row], plans.by_year[row]
    if year.nodes is None:
        kept = f"no number of nodes is enough, for {year.binding}"
    elif year.cost_per_year is None:
        kept = f"{number_of(year.nodes, 'node')} for {year.binding}, more than the {plans.most_nodes:,} allowed"
    else:
        kept = f"{number_of(year.nodes, 'node')} for {year.binding}, {year.cost_per_year:,.0f} {plans.currency}/year"
    text = f"year {year.year}: {first.machine.name}, {kept}"
    if best.cost_per_year is None:
        return f"{text}; no type has a plan then"
    if year.cost_per_year is not None and best.cost_per_year >= year.cost_per_year:
        return text
    return f"{text}; cheapest then: {best.nodes:,} x {best.machine}, {best.cost_per_year:,.0f} {plans.currency}/year"


ADVICE = {
    " allowed": "--most-nodes, or less headroom",
    " measured": "--extrapolate, or a measurement of more cores",
    "longer than the limit": "a longer latency in the need",
    "fill its memory": "fewer clients, or less memory for each connection",
    MISSING: "a catalogue that tells more",
    "priced in": "--currency",
}
"""Part of a reason -> what would let its types be planned with."""


def power_in_words(plan: Plan) -> str:
    """Say what a plan's machines take; empty where nothing is known of their processor."""
    watts, year = plan.watts, plan.kwh_per_year
    if watts is None or year is None:
        return ""
    return (
        f"power, ESTIMATED from the processor: {watts.likely / 1e3:,.3g} kW ({watts.low / 1e3:,.3g} to "
        f"{watts.high / 1e3:,.3g}), {year.likely:,.0f} kWh a year"
    )


def advice(plans: Plans) -> str:
    """Return what would let most of the refused types be planned with; empty where nothing is known to."""
    counts: Counter[str] = Counter()
    for reason, count in refusals(plans).items():
        for part, remedy in ADVICE.items():
            if part in reason:
                counts[remedy] += count
                break
    return "; ".join(f"{remedy} ({number_of(count, 'type')})" for remedy, count in counts.most_common(3))


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


def decisive_in_words(kind: str, law: Law) -> str:
    """Return a sentence about what a law says of the cheapest plan's machine, which decides the plan."""
    chosen = law.cheapest or law.largest
    return (
        f"{kind} on the {chosen.cores:.3g} cores of the cheapest plan's type: {chosen.rps.likely:,.0f}/s, 95 % "
        f"interval {chosen.rps.low:,.0f} to {chosen.rps.high:,.0f}"
    )


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
    name = f"{state.current.nodes} x {state.machine.name}{marks(state.machine, state.extrapolated)}"
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
