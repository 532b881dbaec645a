"""Figures of traces: a request's spans with its critical path, the time on the path, the service graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from framework.critical_path.analysis import Analysis
from framework.critical_path.comparison import Groups
from framework.report.figure import BAD, BEST, DEFAULT, OTHER, figure, svg

if TYPE_CHECKING:
    import networkx

MOST_SPANS = 60  # drawn of one request
MOST_TRACES = 2000  # in the flame graph


def gantt(analysis: Analysis, trace: int) -> str:
    """Plot the spans of one request by their start; sections on the critical path in colour."""
    spans = analysis.spans
    rows = np.flatnonzero(spans.trace == trace)
    of_trace = spans.trace[analysis.sections.row] == trace
    sections = analysis.sections
    path = [column[of_trace].tolist() for column in (sections.row, sections.start_ns, sections.end_ns)]
    on_path = set(path[0])
    if len(rows) > MOST_SPANS:  # those on the path first, then the longest
        length = (spans.end_ns - spans.start_ns)[rows]
        first = np.array([row not in on_path for row in rows.tolist()])
        rows = rows[np.lexsort((-length, first))][:MOST_SPANS]
    rows = rows[np.lexsort((-spans.end_ns[rows], spans.start_ns[rows]))]
    place = {int(row): number for number, row in enumerate(rows)}
    begin = int(spans.start_ns[spans.trace == trace].min())
    drawing, axes = figure(7.6, 0.7 + 0.19 * len(rows))
    axes.barh(
        range(len(rows)), (spans.end_ns - spans.start_ns)[rows] / 1e6, left=(spans.start_ns[rows] - begin) / 1e6,
        height=0.5, color="#d1d5db",
    )  # fmt: skip
    for row, low, high in zip(*path, strict=True):
        if row in place:
            axes.barh(place[row], (high - low) / 1e6, left=(low - begin) / 1e6, height=0.5, color=BAD)
    names = analysis.charges.names
    labels = [f"{names[analysis.charges.service[row]]}: {spans.strings[spans.operation[row]]}"[:48] for row in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=6.5)
    axes.invert_yaxis()
    axes.set_xlabel("ms since the request began (red: the critical path)")
    return svg(drawing)


def flame(analysis: Analysis) -> str:
    """Plot the time on the critical path as a flame graph: width is the share of all requests' time."""
    totals = _stacks(analysis)
    whole = sum(totals.values())
    inclusive: dict[tuple[str, ...], int] = {}
    for stack, time in totals.items():
        for depth in range(1, len(stack) + 1):
            inclusive[stack[:depth]] = inclusive.get(stack[:depth], 0) + time
    deepest = max(len(stack) for stack in inclusive)
    drawing, axes = figure(7.6, 0.6 + 0.24 * deepest)
    left: dict[tuple[str, ...], float] = {(): 0.0}
    for stack in sorted(inclusive, key=lambda stack: (len(stack), stack[:-1], -inclusive[stack], stack)):
        at, width = left[stack[:-1]], inclusive[stack] / whole
        left[stack] = at
        left[stack[:-1]] = at + width
        if width < 0.002:
            continue
        own = totals.get(stack, 0) / whole
        colour = _heat(0.15 + 0.75 * own / max(width, 1e-12))
        axes.barh(
            len(stack) - 1, width, left=at, height=0.94, align="center", color=colour, edgecolor="white", linewidth=0.6
        )
        if width > 0.05:
            text = stack[-1][: max(3, int(width * 95))]
            ink = "white" if own > 0.6 * width else "#111827"
            axes.text(at + width / 2, len(stack) - 1, text, ha="center", va="center", fontsize=6.5, color=ink)
    axes.set_xlim(0, 1)
    axes.invert_yaxis()
    axes.set_yticks([])
    axes.set_xlabel("share of the critical path (darker: the service's own time, lighter: of what it called)")
    return svg(drawing)


def _stacks(analysis: Analysis) -> Mapping[tuple[str, ...], int]:
    """Return services from the root to a span -> time on the critical path [ns]; one that calls itself counts once."""
    spans, names = analysis.spans, analysis.charges.names
    known: dict[int, tuple[str, ...]] = {}

    def stack_of(row: int) -> tuple[str, ...]:
        ancestors = []
        while row not in known and row >= 0:
            ancestors.append(row)
            row = int(spans.parent[row])
        stack = known[row] if row >= 0 else ()
        for span in reversed(ancestors):
            name = names[analysis.charges.service[span]]
            stack = stack if stack and stack[-1] == name else (*stack, name)
            known[span] = stack
        return stack

    totals: dict[tuple[str, ...], int] = {}
    chosen = spans.trace[analysis.sections.row] < MOST_TRACES
    lengths = (analysis.sections.end_ns - analysis.sections.start_ns)[chosen]
    for row, length in zip(analysis.sections.row[chosen].tolist(), lengths.tolist(), strict=True):
        stack = stack_of(row)
        totals[stack] = totals.get(stack, 0) + length
    return totals


def service_graph(analysis: Analysis) -> str:
    """Plot the calls between services, left to right; colour: share of the critical path; width: calls per request."""
    import networkx
    from matplotlib.patches import FancyArrowPatch

    graph: networkx.DiGraph[str] = networkx.DiGraph()
    share = {service.name: service.share.value for service in analysis.services}
    graph.add_nodes_from(share)
    graph.add_edges_from((edge.caller, edge.callee) for edge in analysis.edges if edge.caller != edge.callee)
    layers = layers_of(graph)
    place = {}
    for layer, members in layers.items():
        for number, name in enumerate(sorted(members, key=lambda name: -share.get(name, 0.0))):
            place[name] = (float(layer), (number + 0.5) / len(members))
    tallest = max(len(members) for members in layers.values())
    drawing, axes = figure(7.6, 1.2 + 0.42 * tallest)
    calls = {(edge.caller, edge.callee): edge.per_request for edge in analysis.edges if edge.caller != edge.callee}
    widest = max(calls.values(), default=1.0)
    for (caller, callee), weight in calls.items():
        arrow = FancyArrowPatch(
            place[caller], place[callee], connectionstyle="arc3,rad=0.06", arrowstyle="-|>", mutation_scale=7,
            shrinkA=9, shrinkB=9, linewidth=0.4 + 2.2 * weight / widest, color="#9ca3af", zorder=1,
        )  # fmt: skip
        axes.add_patch(arrow)
    largest = max(share.values(), default=1.0) or 1.0
    for name, (x, y) in place.items():
        own = share.get(name, 0.0)
        axes.scatter(x, y, s=150, color=_heat(0.1 + 0.8 * own / largest), edgecolor="#6b7280", linewidth=0.6, zorder=2)
        axes.text(x, y - 0.36 / tallest, f"{name} {own:.1%}", ha="center", va="top", fontsize=6.5, zorder=3)
    axes.set_xlim(-0.5, max(layers) + 0.5)
    axes.set_ylim(-0.12, 1.08)
    axes.axis("off")
    return svg(drawing)


def layers_of(graph: networkx.DiGraph[str]) -> Mapping[int, Sequence[str]]:
    """Group services by their distance from the entry; services that call each other share a layer."""
    import networkx

    condensed = networkx.condensation(graph)
    layers: dict[int, list[str]] = {}
    depth: dict[int, int] = {}
    for component in networkx.topological_sort(condensed):
        depth[component] = max((depth[caller] + 1 for caller in condensed.predecessors(component)), default=0)
        layers.setdefault(depth[component], []).extend(sorted(condensed.nodes[component]["members"]))
    return layers


def _heat(share: float) -> Any:
    """Return the colour of a share from 0, yellow, to 1, red."""
    from matplotlib import colormaps

    return colormaps["YlOrRd"](share)


def contrast(groups: Groups, first: str, second: str) -> str:
    """Plot the mean time on the critical path per request [ms], service by service, of two groups of requests."""
    shown = groups.services[:16][::-1]
    drawing, axes = figure(7.6, 0.8 + 0.3 * len(shown))
    places = np.arange(len(shown))
    for shift, colour, label, estimates in (
        (0.2, DEFAULT, first, [service.first_ms for service in shown]),
        (-0.2, BEST, second, [service.second_ms for service in shown]),
    ):
        axes.barh(places + shift, [estimate.value for estimate in estimates], height=0.36, color=colour, label=label)
        axes.hlines(
            places + shift, [max(0.0, estimate.low) for estimate in estimates],
            [estimate.high for estimate in estimates], color="#111827", linewidth=0.8,
        )  # fmt: skip
    axes.set_yticks(places, [service.name for service in shown])
    axes.set_xlabel("mean time on the critical path [ms per request]; lines: 95 % intervals")
    axes.legend(frameon=False, loc="lower right")
    return svg(drawing)


def shares(analysis: Analysis) -> str:
    """Plot each service's share of the critical path with its interval."""
    shown = [service for service in analysis.services if service.share.value > 0][:20][::-1]
    drawing, axes = figure(7.6, 0.6 + 0.24 * max(2, len(shown)))
    axes.barh(range(len(shown)), [100 * service.share.value for service in shown], color=OTHER)
    low, high = [100 * service.share.low for service in shown], [100 * service.share.high for service in shown]
    axes.hlines(range(len(shown)), low, high, color="#111827", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [service.name for service in shown])
    axes.set_xlabel("share of the critical path [%]; lines: 95 % intervals")
    return svg(drawing)
