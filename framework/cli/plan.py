"""Command for planning machines: plan."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from framework.capacity.laws import MOST_TIMES
from framework.capacity.media import MediaComparison, MediaCosts
from framework.capacity.plan import CONFIDENCE, DRAWS, Plan, Plans
from framework.cli import terminal
from framework.cli.session import messages, output, print_json
from framework.errors import FieldError
from framework.model.capacity import Interval, ScalingPoint
from framework.use_cases.capacity import Law, PlanAnswer, PlanRequest, plan_machines

POINTS = "CORES:RPS or CORES:RPS:SPREAD, with commas between, such as 1:90000,4:340000,16:1123453:20000"
SPEED = "PATTERN=SPEED or PATTERN=LOW,LIKELY,HIGH, above 0, such as '*Graviton*=0.8,0.9,1.1'"
_MOST_REASONS = 8


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(plan)


def plan(
    need: Annotated[Path, typer.Argument(metavar="NEED", help="A need.yaml.")],
    catalogue: Annotated[list[Path], typer.Option(help="Machine types with prices (repeatable).")],
    node: Annotated[str, typer.Option(metavar="POINTS", help=f"Measured reads/s of one node: {POINTS}.")],
    node_writes: Annotated[
        str | None, typer.Option(metavar="POINTS", help="Measured writes/s of one node [default: as reads].")
    ] = None,
    speed: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN=SPEED", help=f"Speed of other CPUs' cores, the measured being 1: {SPEED}."),
    ] = None,
    region: Annotated[list[str] | None, typer.Option(help="Only these regions (repeatable).")] = None,
    currency: Annotated[str, typer.Option(help="Where the catalogues have several; prices are not converted.")] = "",
    confidence: Annotated[
        float, typer.Option(help="Share of the cases in which the machines are enough.")
    ] = CONFIDENCE,
    draws: Annotated[int, typer.Option(help="Cases drawn from the need's intervals and the laws.")] = DRAWS,
    seed: Annotated[int, typer.Option(help="Of the cases.")] = 0,
    most_nodes: Annotated[int, typer.Option(help="Most machines of a plan.")] = 1_000,
    top: Annotated[int, typer.Option(min=1, help="Plans to show.")] = 10,
    most_times: Annotated[
        float, typer.Option(help="Most times the measured cores that a law is asked for.")
    ] = MOST_TIMES,
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Ask the laws beyond that; plans are marked.")
    ] = False,
    media: Annotated[bool, typer.Option("--media", help="Compare memory with disks, 1 to 100 TB.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")] = False,
) -> None:
    """Plan machines for a stated need: how many of which type, what they cost, what binds.  Exits 1 without a plan."""
    request = PlanRequest(
        need=need,
        catalogues=catalogue,
        reads=_points("node", node),
        writes=_points("node_writes", node_writes) if node_writes is not None else (),
        speeds=dict(_speed(text) for text in speed or []),
        regions=region or (),
        currency=currency,
        confidence=confidence,
        draws=draws,
        seed=seed,
        most_nodes=most_nodes,
        most_plans=top,
        most_times=most_times,
        extrapolate=extrapolate,
        media=media,
    )
    with messages.status("planning"):
        answer = plan_machines(request)
    if as_json:
        print_json(answer)
    else:
        _show(answer, confidence)
    if not answer.plans.plans:
        raise typer.Exit(1)


def _points(field: str, text: str) -> list[ScalingPoint]:
    points = []
    for part in text.split(","):
        try:
            values = [float(number) for number in part.split(":")]
            cores, rps, spread = [*values, 0.0][:3]
        except ValueError:
            raise FieldError(field, part, POINTS) from None
        if len(values) > 3 or not (cores >= 1 and 0 < rps < float("inf") and 0 <= spread < float("inf")):
            raise FieldError(field, part, f"{POINTS}; at least 1 core, RPS above 0")
        points.append(ScalingPoint(cores, rps, spread))
    return points


def _speed(text: str) -> tuple[str, Interval]:
    pattern, _, numbers = text.rpartition("=")
    number = r"\d+(?:\.\d+)?"
    values = (
        [float(value) for value in numbers.split(",")]
        if re.fullmatch(f"{number}(,{number},{number})?", numbers)
        else []
    )
    if not pattern or not values or min(values) <= 0 or values != sorted(values):
        raise FieldError("speed", text, SPEED)
    return pattern, Interval(values[0], values[len(values) // 2], values[-1])


def _show(answer: PlanAnswer, confidence: float) -> None:
    plans = answer.plans
    _show_law("reads", answer.reads)
    if answer.writes is None:
        output.print("writes: not measured; taken to cost as much as reads")
    else:
        _show_law("writes", answer.writes)
    if plans.plans:
        output.print(_table(plans))
        output.print(
            f"{len(plans.plans)} of {plans.count} plans, the cheapest first; nodes are enough in {confidence:.0%} of "
            "the cases, costs have the interval of 90 %; needed: in the likely case",
            soft_wrap=True,
        )
        _show_cheapest(plans.plans[0], plans.currency)
        _show_notes(plans)
        _show_sensitivity(plans)
        _show_years(plans.plans[0], plans.currency)
    if answer.media is not None:
        _show_media(answer.media, plans.currency)
    reasons = Counter(refused.reason for refused in plans.refused)
    for reason, count in reasons.most_common(_MOST_REASONS):
        output.print(terminal.escape(f"refused: {count} types: {reason}"), soft_wrap=True)
    if len(reasons) > _MOST_REASONS:
        output.print(f"and {len(reasons) - _MOST_REASONS} more reasons (--json has every type's)")
    if not plans.plans:
        output.print("[red]no machine type of the catalogue meets the need[/]")


def _show_law(kind: str, law: Law) -> None:
    rps = law.largest.rps
    output.print(
        f"{kind}: {law.name} law of {len(law.points)} points; on {law.largest.cores:g} cores {rps.likely:,.0f}/s, "
        f"95 % interval {rps.low:,.0f} to {rps.high:,.0f}",
        soft_wrap=True,
    )


def _table(plans: Plans) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("machine type", overflow="fold")
    for column in ("nodes", "needed", "binds", f"{plans.currency}/hour", "90 % of cases"):
        table.add_column(column, overflow="fold", justify="left" if column == "binds" else "right")
    for entry in plans.plans:
        high = f"{entry.cost_range.high:,.2f}" if math.isfinite(entry.cost_range.high) else "no end"
        table.add_row(
            terminal.escape(_name(entry)),
            str(entry.nodes),
            f"{entry.needed.likely:.0f}",
            entry.binding,
            f"{entry.cost_per_hour:,.2f}",
            f"{entry.cost_range.low:,.2f} to {high}",
        )
    return table


def _name(entry: Plan) -> str:
    mark = " (extrapolated)" if entry.extrapolated else ""
    return f"{entry.machine.name} {entry.machine.region}".rstrip() + mark


def _show_cheapest(cheapest: Plan, currency: str) -> None:
    resources = ", ".join(f"{name} {nodes}" for name, nodes in cheapest.by_resource.items())
    text = (
        f"cheapest: {cheapest.nodes} x {_name(cheapest)}: {cheapest.cost_per_hour:,.2f} {currency}/hour, "
        f"{cheapest.cost_per_year:,.0f} {currency}/year, {cheapest.cost_per_million_requests:.3g} {currency} per "
        f"million requests; nodes that each resource takes: {resources}"
    )
    output.print(terminal.escape(text), soft_wrap=True)


def _show_notes(plans: Plans) -> None:
    for source, priced_on in sorted({(entry.machine.source, entry.machine.priced_on) for entry in plans.plans}):
        output.print(terminal.escape(f"prices of {priced_on}: {source}"), soft_wrap=True)
    if any(entry.speed is None for entry in plans.plans):
        output.print("a core counts as fast as a measured one, where --speed says nothing of its processor")
    if any(entry.machine.cores is None for entry in plans.plans):
        output.print("two hardware threads count as one core, where the catalogue has no physical cores")


def _show_sensitivity(plans: Plans) -> None:
    for row in plans.sensitivity:
        what = row.amount if "/" in row.amount else f"20 % more {row.amount}"
        cost = "no plan" if row.cost_per_hour is None else f"{row.cost_per_hour:,.2f} {plans.currency}/hour"
        change = "" if row.change is None else f" ({row.change:+.0%}, {row.machine})"
        output.print(terminal.escape(f"{what}: {cost}{change}"), soft_wrap=True)


def _show_years(cheapest: Plan, currency: str) -> None:
    for year in cheapest.years:
        nodes = "no number of nodes is enough" if year.nodes is None else f"{year.nodes} nodes"
        cost = "" if year.cost_per_year is None else f", {year.cost_per_year:,.0f} {currency}/year"
        output.print(terminal.escape(f"year {year.year}: {cheapest.machine.name}, {nodes}{cost}"), soft_wrap=True)


def _show_media(media: MediaComparison, currency: str) -> None:
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
