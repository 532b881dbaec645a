"""Plans of machines on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from framework.capacity.answers import (
    CurrentState,
    Law,
    MediaComparison,
    MediaCosts,
    Plan,
    PlanAnswer,
    Plans,
    ServiceShare,
    TuningGain,
)
from framework.cli import terminal
from framework.report.plan_words import (
    advice,
    assumption,
    ceiling_in_words,
    decisive_in_words,
    gain_in_words,
    horizon,
    not_considered,
    number_of,
    plan_name,
    power_in_words,
    range_in_words,
    refusals,
    state_in_words,
    year_in_words,
)

MOST_REASONS = 8
MOST_SERVICES = 8


def show(output: Console, answer: PlanAnswer) -> None:
    """Show plans with what they rest on, what binds, and why other types were refused."""
    plans = answer.plans
    if answer.modelled:
        output.print(terminal.MODELLED.format("a queueing model (twin.json)"))
    _show_law(output, "reads", answer.reads)
    if answer.writes is None:
        output.print("writes: not measured; taken to cost as much as reads")
    else:
        _show_law(output, "writes", answer.writes)
    if not plans.plans:
        output.print("[red]no machine type of the catalogue meets the need[/]")
        if what := advice(plans):
            output.print(terminal.escape(f"what would help: {what}"), soft_wrap=True)
    for note in answer.notes:
        output.print(terminal.escape(note), soft_wrap=True)
    if plans.plans:
        output.print(_table(plans))
        output.print(
            f"{len(plans.plans)} of {number_of(plans.count, 'plan')}, the cheapest first, for today's need\n"
            f"nodes: enough in {answer.confidence:.0%} of the cases; needed: in the likely case\n"
            "costs: of the nodes, and the interval of 90 % of the cases",
            soft_wrap=True,
        )
        _show_cheapest(output, plans)
        _show_services(output, plans.plans[0].services)
        _show_notes(output, plans)
    if plans.current is not None:
        _show_current(output, plans.current, plans.currency)
    if answer.gain is not None:
        _show_gain(output, answer.gain, plans.currency)
    if plans.plans:
        _show_sensitivity(output, plans)
        _show_availability(output, plans)
        _show_years(output, plans)
    if answer.media is not None:
        _show_media(output, answer.media, plans.currency)
    _show_refused(output, plans)


def _show_law(output: Console, kind: str, law: Law) -> None:
    rps = law.largest.rps
    output.print(
        f"{kind}: {law.name} law of {number_of(len(law.points), 'point')}; on {law.largest.cores:.3g} cores "
        f"{rps.likely:,.0f}/s, 95 % interval {rps.low:,.0f} to {rps.high:,.0f}",
        soft_wrap=True,
    )
    if law.cheapest is not None and law.cheapest.cores != law.largest.cores:
        output.print(decisive_in_words(kind, law), soft_wrap=True)
    if law.ceiling is not None:
        output.print(terminal.escape(ceiling_in_words(kind, law)), soft_wrap=True)


def _table(plans: Plans) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("machine type", overflow="fold")
    for column in ("nodes", "needed", "binds", f"{plans.currency}/hour", "90 % of cases"):
        table.add_column(column, overflow="fold", justify="left" if column == "binds" else "right")
    for entry in plans.plans:
        table.add_row(
            terminal.escape(plan_name(entry)),
            f"{entry.nodes:,}",
            f"{entry.needed.likely:,.0f}",
            entry.binding,
            f"{entry.cost_per_hour:,.2f}",
            range_in_words(entry.cost_range),
        )
    return table


def _show_cheapest(output: Console, plans: Plans) -> None:
    cheapest, currency = plans.plans[0], plans.currency
    resources = ", ".join(f"{name} {nodes:,.3g}" for name, nodes in cheapest.by_resource.items())
    today = " (today, without growth)" if plans.by_year else ""
    lines = [
        f"cheapest: {cheapest.nodes:,} x {plan_name(cheapest)}: {cheapest.cost_per_hour:,.2f} {currency}/hour, "
        f"{cheapest.cost_per_year:,.0f} {currency}/year, {cheapest.cost_per_million_requests:.3g} {currency} per "
        f"million requests{today}",
        horizon(plans),
        not_considered(plans),
        assumption(plans),
        power_in_words(cheapest),
        f"nodes that each resource alone takes, before they are rounded up: {resources}",
    ]
    for line in filter(None, lines):
        output.print(terminal.escape(line), soft_wrap=True)


def _show_services(output: Console, services: Sequence[ServiceShare]) -> None:
    if len(services) < 2:
        return
    table = Table(box=None, pad_edge=False)
    for column in ("service", "of the CPU time", "busy cores", "nodes, apart"):
        table.add_column(column, justify="left" if column == "service" else "right")
    for service in services[:MOST_SERVICES]:
        row = (f"{service.share:.1%}", f"{service.busy_cores:.1f}", f"{service.nodes_apart:,}")
        table.add_row(terminal.escape(service.service), *row)
    output.print(table)
    rest = len(services) - MOST_SERVICES
    more = f" ({rest} more services in --json)" if rest > 0 else ""
    apart = sum(service.nodes_apart for service in services)
    output.print(f"each service on nodes of its own would take {apart:,} nodes for the CPU{more}", soft_wrap=True)


def _show_notes(output: Console, plans: Plans) -> None:
    for source, priced_on in sorted({(entry.machine.source, entry.machine.priced_on) for entry in plans.plans}):
        output.print(terminal.escape(f"prices of {priced_on}: {source}"), soft_wrap=True)
    if any(entry.speed is None for entry in plans.plans):
        output.print("a core counts as fast as a measured one, where --speed says nothing of its processor")
    if any(entry.machine.cores is None for entry in plans.plans):
        output.print("two hardware threads count as one core, where the catalogue has no physical cores")


def _show_current(output: Console, state: CurrentState, currency: str) -> None:
    for line in state_in_words(state, currency):
        output.print(terminal.escape(line), soft_wrap=True)


def _show_gain(output: Console, gain: TuningGain, currency: str) -> None:
    saving = gain.saving_per_hour
    output.print(
        terminal.escape(
            f"tuning (study {gain.study}): {gain.tuned.nodes} x {plan_name(gain.tuned)} for "
            f"{gain.tuned.cost_per_hour:,.2f} in place of {gain.default.nodes} x {plan_name(gain.default)} for "
            f"{gain.default.cost_per_hour:,.2f} {currency}/hour: {saving.likely:,.2f} saved "
            f"({gain_in_words(gain, currency)}), {gain.saving_per_year:,.0f} "
            f"{currency}/year" + ("" if gain.shown else "; no saving shown")
        ),
        soft_wrap=True,
    )


def _show_sensitivity(output: Console, plans: Plans) -> None:
    for row in plans.sensitivity:
        what = f"with a {row.amount}" if "/" in row.amount else f"with 20 % more {row.amount}"
        cost = "no plan" if row.cost_per_hour is None else f"{row.cost_per_hour:,.2f} {plans.currency}/hour"
        change = "" if row.change is None else f" ({row.change:+.0%}, {row.machine})"
        output.print(terminal.escape(f"{what}: {cost}{change}"), soft_wrap=True)


def _show_availability(output: Console, plans: Plans) -> None:
    for row in plans.availability:
        copies = number_of(row.replicas, "copy", "copies")
        domains = number_of(row.failure_domains, "failure domain")
        cost = "no plan" if row.cost_per_hour is None else f"{row.cost_per_hour:,.2f} {plans.currency}/hour"
        asked = (row.replicas, row.failure_domains) == (plans.need.replicas, plans.need.failure_domains)
        output.print(f"{copies} in {domains}: {cost}{' (as asked)' if asked else ''}", soft_wrap=True)


def _show_years(output: Console, plans: Plans) -> None:
    for row in range(len(plans.by_year)):
        output.print(terminal.escape(year_in_words(plans, row)), soft_wrap=True)


def _show_media(output: Console, media: MediaComparison, currency: str) -> None:
    def cell(chosen: Plan | None) -> str:
        return "no plan" if chosen is None else f"{chosen.cost_per_hour:,.2f} ({chosen.nodes} x {chosen.machine.name})"

    def row(costs: MediaCosts) -> tuple[str, str, str]:
        return f"{costs.stored / 1e12:g} TB", cell(costs.memory), cell(costs.disk)

    table = Table(box=None, pad_edge=False)
    for column in ("stored", f"memory, {currency}/hour", f"disks, {currency}/hour"):
        table.add_column(column, overflow="fold")
    for costs in media.rows:
        table.add_row(*map(terminal.escape, row(costs)))
    output.print(table)
    crossover = media.crossover
    output.print("disks are not cheaper" if crossover is None else f"disks are cheaper from {crossover / 1e12:.3g} TB")


def _show_refused(output: Console, plans: Plans) -> None:
    reasons: Counter[str] = refusals(plans)
    for reason, count in reasons.most_common(MOST_REASONS):
        output.print(terminal.escape(f"refused: {number_of(count, 'type')}: {reason}"), soft_wrap=True)
    if len(reasons) > MOST_REASONS:
        output.print(f"and {number_of(len(reasons) - MOST_REASONS, 'more reason')} (--json has every type's)")
