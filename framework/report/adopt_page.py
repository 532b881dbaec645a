"""The HTML page of `tailor init`: what was understood of an application, and what the first deployments proved."""

from __future__ import annotations

from markupsafe import Markup

from framework.adopt.grades import Proof
from framework.adopt.proposal import Proposal
from framework.report.figure import figure, svg
from framework.report.page import ENVIRONMENT
from framework.report.trace_plots import layers_of

COLOURS = {"certain": "#0f766e", "likely": "#b45309", "a guess": "#b91c1c", "": "#9ca3af"}


def adopt_page(proposal: Proposal, proof: Proof | None = None) -> str:
    """Write the page; ``proof``: None where nothing was deployed."""
    picture = Markup(calls_picture(proposal))
    return ENVIRONMENT.get_template("adopt.html").render(proposal=proposal, proof=proof, picture=picture)


def calls_picture(proposal: Proposal) -> str:
    """Draw who calls whom, from the entry left to right; colour: how certain the type of a service is."""
    import networkx
    from matplotlib.patches import FancyArrowPatch

    shown = [n for n, part in proposal.parts.items() if n not in proposal.left_out and part.role != "tracing"]
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    graph.add_nodes_from(shown)
    graph.add_edges_from((name, other) for name in shown for other in proposal.parts[name].calls if other in shown)
    layers = layers_of(graph)
    place = {
        name: (float(layer), (number + 0.5) / len(members))
        for layer, members in layers.items()
        for number, name in enumerate(members)
    }
    tallest = max((len(members) for members in layers.values()), default=1)
    drawing, axes = figure(7.6, 1.2 + 0.46 * tallest)
    for caller, callee in graph.edges:
        arrow = FancyArrowPatch(
            place[caller], place[callee], connectionstyle="arc3,rad=0.06", arrowstyle="-|>", mutation_scale=7,
            shrinkA=9, shrinkB=9, linewidth=0.8, color="#9ca3af", zorder=1,
        )  # fmt: skip
        axes.add_patch(arrow)
    entry = proposal.entry.service if proposal.entry is not None else ""
    for name, (x, y) in place.items():
        match = proposal.types.get(name)
        colour = COLOURS[match.certainty if match is not None else ""]
        axes.scatter(x, y, s=150, color=colour, edgecolor="#111827", linewidth=1.8 if name == entry else 0.5, zorder=2)
        label = f"{name}\n{match.type if match is not None else proposal.parts[name].role}"
        axes.text(x, y - 0.3 / tallest, label, ha="center", va="top", fontsize=6.5, zorder=3)
    axes.set_xlim(-0.5, max(layers, default=0) + 0.5)
    axes.set_ylim(-0.18, 1.08)
    axes.axis("off")
    return svg(drawing)
