"""Figures of plans of machines as SVG text."""

from __future__ import annotations

import math
from collections.abc import Mapping

from framework.capacity.answers import Law, MediaComparison, Plan, Plans
from framework.report.figure import BAD, BEST, DEFAULT, OTHER, figure, svg
from framework.report.plan_words import number_of, plan_name

MOST_SERVICES = 20
WIDE = 20  # times the least cost, from which an axis is logarithmic


def laws_plot(laws: Mapping[str, Law]) -> str:
    """Plot throughput against cores: points with their spread, the law chosen, and the interval over all laws."""
    drawing, axes = figure(7.6, 3.4)
    for (kind, law), colour in zip(laws.items(), (BEST, DEFAULT), strict=False):
        cores = [prediction.cores for prediction in law.curve]
        axes.fill_between(
            cores,
            [p.rps.low for p in law.curve],
            [p.rps.high for p in law.curve],
            color=colour,
            alpha=0.15,
            linewidth=0,
        )
        axes.plot(cores, [p.rps.likely for p in law.curve], color=colour, linewidth=1.4, label=f"{kind}: {law.name}")
        axes.errorbar(
            [point.cores for point in law.points],
            [point.throughput_rps for point in law.points],
            yerr=[1.96 * point.spread for point in law.points],
            fmt="o", color=colour, markersize=4, linewidth=1.0,
        )  # fmt: skip
    axes.axvline(max(law.largest.cores for law in laws.values()), color=DEFAULT, linewidth=0.8, linestyle=":")
    axes.set_xlabel("physical cores of a node (dotted: the most that were measured)")
    axes.set_ylabel("requests per second")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper left")
    return svg(drawing)


def costs_plot(plans: Plans) -> str:
    """Plot the cost per hour of each plan with its interval, the cheapest on top, and that of what runs now."""
    shown = plans.plans[::-1]
    drawing, axes = figure(7.6, 0.8 + 0.28 * max(len(shown), 3))
    axes.barh(range(len(shown)), [plan.cost_per_hour for plan in shown], color=OTHER, height=0.62)
    highs = [_finite(plan.cost_range.high, plan.cost_per_hour) for plan in shown]
    axes.hlines(range(len(shown)), [plan.cost_range.low for plan in shown], highs, color="#111827", linewidth=1.0)
    axes.set_yticks(range(len(shown)), [f"{plan.nodes:,} x {plan_name(plan)}" for plan in shown])
    if plans.current is not None:
        axes.axvline(plans.current.cost_per_hour, color=BAD, linewidth=1.0, linestyle="--", label="what runs now")
        axes.legend(frameon=False, loc="lower right")
    axes.set_xlabel(f"{plans.currency} per hour (lines: 90 % of the cases)")
    return svg(drawing)


def resources_plot(plan: Plan) -> str:
    """Plot the nodes that each resource alone would take."""
    names = [*plan.by_resource][::-1]
    drawing, axes = figure(7.6, 0.7 + 0.26 * max(len(names), 3))
    colours = [BEST if name == plan.binding else OTHER for name in names]
    nodes = [plan.by_resource[name] for name in names]
    axes.barh(names, nodes, color=colours)
    for place, count in enumerate(nodes):
        axes.text(count, place, f" {count:,.3g}", va="center", fontsize=8)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel(f"nodes of {plan.machine.name} that each resource alone would take (dark: it binds)")
    return svg(drawing)


def years_plot(plans: Plans) -> str:
    """Plot cost per year over the years of growth: of the cheapest type of today, and of the cheapest of each year."""
    drawing, axes = figure(7.6, 3.0)
    first, costs = plans.plans[0], []
    for label, colour, rows in (
        ("cheapest type of each year", BEST, [(year.year, year.cost_per_year) for year in plans.by_year]),
        (f"{first.machine.name} kept", DEFAULT, [(year.year, year.cost_per_year) for year in first.years]),
    ):
        known = [(year, cost) for year, cost in rows if cost is not None]
        axes.plot(
            [year for year, _ in known], [cost for _, cost in known], "--o" if colour == DEFAULT else "-o",
            color=colour, markersize=3 if colour == DEFAULT else 6, label=label,
        )  # fmt: skip
        costs += [cost for _, cost in known]
    if plans.current is not None:
        axes.axhline(plans.current.cost_per_year, color=BAD, linewidth=0.9, linestyle="--", label="what runs now costs")
        if plans.current.last_year is not None:
            axes.axvline(plans.current.last_year, color=BAD, linewidth=0.8, linestyle=":", label="and is enough until")
    axes.set_xticks([year.year for year in first.years])
    axes.set_xlabel("years of growth")
    axes.set_ylabel(f"{plans.currency} per year, today's prices")
    if max(costs) > WIDE * min(costs):  # else the first years would lie on zero
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(frameon=False, loc="upper left")
    return svg(drawing)


def sensitivity_plot(plans: Plans) -> str:
    """Plot what 20 % more of each amount costs, the dearest on top."""
    rows = sorted((row for row in plans.sensitivity if row.change is not None), key=lambda row: row.change or 0.0)
    drawing, axes = figure(7.6, 0.7 + 0.26 * max(len(rows), 3))
    changes = [100 * (row.change or 0.0) for row in rows]
    axes.barh([row.amount for row in rows], changes, color=OTHER)
    for place, change in enumerate(changes):
        axes.text(max(0.0, change), place, f" {change:+.0f} %", va="center", fontsize=8)
    axes.axvline(0, color=DEFAULT, linewidth=0.8)
    axes.set_xlabel("change of the cost with 20 % more of it, or the limit divided by 1.2 [%]")
    return svg(drawing)


def availability_plot(plans: Plans) -> str:
    """Plot the cost by copies and failure domains; dark: as the need asks."""
    rows = [row for row in plans.availability if row.cost_per_hour is not None][::-1]
    asked = (plans.need.replicas, plans.need.failure_domains)
    drawing, axes = figure(7.6, 0.7 + 0.26 * max(len(rows), 3))
    names = [f"{number_of(row.replicas, 'copy', 'copies')}, {number_of(row.failure_domains, 'domain')}" for row in rows]
    colours = [BEST if (row.replicas, row.failure_domains) == asked else OTHER for row in rows]
    axes.barh(names, [row.cost_per_hour or 0.0 for row in rows], color=colours)
    axes.set_xlabel(f"{plans.currency} per hour of the cheapest plan (dark: as asked)")
    return svg(drawing)


def services_plot(plan: Plan) -> str:
    """Plot the busy cores of each service, and the nodes that it would take alone."""
    shown = plan.services[:MOST_SERVICES][::-1]
    drawing, axes = figure(7.6, 0.7 + 0.26 * max(len(shown), 3))
    axes.barh([service.service for service in shown], [service.busy_cores for service in shown], color=OTHER)
    for place, service in enumerate(shown):
        axes.text(
            service.busy_cores,
            place,
            f" {_share_in_words(service.share)}; {number_of(service.nodes_apart, 'node')} apart",
            va="center",
            fontsize=8,
        )
    axes.margins(x=0.25)
    axes.set_xlabel("cores busy at the planned rate, in the mean over all nodes")
    return svg(drawing)


def media_plot(media: MediaComparison, currency: str) -> str:
    """Plot the cost of memory and of disks against the bytes stored, with the crossover."""
    drawing, axes = figure(7.6, 3.2)
    for label, colour, rows in (
        ("memory", DEFAULT, [(row.stored, row.memory) for row in media.rows]),
        ("disks", BEST, [(row.stored, row.disk) for row in media.rows]),
    ):
        known = [(stored / 1e12, plan.cost_per_hour) for stored, plan in rows if plan is not None]
        axes.plot(
            [size for size, _ in known], [cost for _, cost in known], "-o", color=colour, markersize=4, label=label
        )
    if media.crossover is not None:
        axes.axvline(
            media.crossover / 1e12, color=BAD, linewidth=0.9, linestyle="--", label="disks are cheaper from here"
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("stored [TB]")
    axes.set_ylabel(f"{currency} per hour")
    axes.legend(frameon=False)
    return svg(drawing)


def _share_in_words(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.2%}" if share >= 1e-4 else "below 0.01%"


def _finite(value: float, instead: float) -> float:
    return value if math.isfinite(value) else instead
