"""The HTML page of `tailor init`: what was understood of an application, and what the first deployments proved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING

from markupsafe import Markup

from framework.adopt.grades import Proof
from framework.adopt.proposal import Proposal
from framework.report.figure import figure, svg
from framework.report.page import ENVIRONMENT
from framework.report.trace_plots import layers_of

if TYPE_CHECKING:
    import networkx

COLOURS = {"certain": "#0f766e", "likely": "#b45309", "a guess": "#b91c1c", "": "#9ca3af"}


def adopt_page(proposal: Proposal, proof: Proof | None = None) -> str:
    """Write the page; ``proof``: None where nothing was deployed."""
    picture = Markup(calls_picture(proposal))
    return ENVIRONMENT.get_template("adopt.html").render(proposal=proposal, proof=proof, picture=picture)


def calls_picture(proposal: Proposal) -> str:
    """Draw who calls whom, from the entry left to right; colour: how certain the type of a service is."""
    import networkx
    from matplotlib.patches import FancyArrowPatch

    entry = proposal.entry.service if proposal.entry is not None else ""
    shown = [name for name, part in proposal.parts.items() if part.role == "service"]
    shown.sort(key=lambda name: (name != entry, not proposal.parts[name].calls))  # those that call nobody come last
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    graph.add_nodes_from(shown)
    graph.add_edges_from((name, other) for name in shown for other in proposal.parts[name].calls if other in shown)
    layers = layers_of(graph)
    place = _places(graph, layers, shown)
    tallest = max((len(members) for members in layers.values()), default=1)
    drawing, axes = figure(7.6, 1.2 + 0.46 * tallest)
    for caller, callee in graph.edges:
        arrow = FancyArrowPatch(
            place[caller], place[callee], connectionstyle="arc3,rad=0.06", arrowstyle="-|>", mutation_scale=7,
            shrinkA=9, shrinkB=9, linewidth=0.8, color="#9ca3af", zorder=1,
        )  # fmt: skip
        axes.add_patch(arrow)
    for name, (x, y) in place.items():
        match = proposal.types.get(name)
        colour = COLOURS[match.certainty if match is not None else ""]
        axes.scatter(x, y, s=150, color=colour, edgecolor="#111827", linewidth=1.8 if name == entry else 0.5, zorder=2)
        label = f"{name}\n{match.type if match is not None else proposal.parts[name].role}"
        paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.4}  # over the arrows
        axes.text(x, y - 0.26 / tallest, label, ha="center", va="top", fontsize=6.5, zorder=3, bbox=paper)
    axes.set_xlim(-0.5, max(layers, default=0) + 0.5)
    axes.set_ylim(-0.5 / tallest, 1 + 0.1 / tallest)
    axes.axis("off")
    return svg(drawing)


def _places(
    graph: networkx.DiGraph[str], layers: Mapping[int, Sequence[str]], order: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Return service -> (x, y): layers from the left, and in each from the top by the mean height of the callers."""
    place: dict[str, tuple[float, float]] = {}
    for layer in sorted(layers):
        heights = {
            name: [place[caller][1] for caller in graph.predecessors(name) if caller in place] for name in layers[layer]
        }
        members = sorted(
            layers[layer], key=lambda name: (-mean(heights[name]) if heights[name] else -1.0, order.index(name))
        )
        for number, name in enumerate(members):
            place[name] = (float(layer), 1 - (number + 0.5) / len(members))
    return place
