"""Figures of a measurement of energy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from framework.energy.answers import EnergyAnswer, Figure, IoCost, RunAnswer
from framework.energy.scaling import Projection
from framework.report.energy_words import phase_name, scale
from framework.report.figure import BEST, BRIGHT, DEFAULT, OTHER, figure, svg

if TYPE_CHECKING:  # imported where something is drawn: most commands draw nothing
    from matplotlib.axes import Axes

STATES = {
    "user": BRIGHT[0], "guest": BRIGHT[4], "system": BRIGHT[1], "irq": BRIGHT[5], "softirq": BRIGHT[3],
    "steal": "#111827", "iowait": BRIGHT[2], "idle": "#e5e7eb",
}  # fmt: skip
MOST_SERVICES = 12


def states_plot(rows: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """Plot the shares of the CPUs' time by state, a bar for each row (figure 1 of Akram et al.).

    ``rows``: (name, state -> share), from the top.
    """
    rows = rows[::-1]
    drawing, axes = figure(7.6, 0.9 + 0.34 * max(len(rows), 2))
    left = [0.0] * len(rows)
    for state, colour in STATES.items():
        shares = [row.get(state, 0.0) for _, row in rows]
        if max(shares, default=0.0) > 0:
            axes.barh(range(len(rows)), shares, left=left, color=colour, label=state, height=0.62)
        left = [start + share for start, share in zip(left, shares, strict=True)]
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlabel("share of the CPUs' time")
    axes.legend(frameon=False, ncols=8, loc="lower left", bbox_to_anchor=(0.0, 1.0), fontsize=8)
    return svg(drawing)


def watts_plot(answer: EnergyAnswer) -> str:
    """Plot the machine's power in each phase: bars, the interval over windows dark, that of the source light."""
    phases = [phase for phase in answer.phases if phase.watts is not None][::-1]
    drawing, axes = figure(7.6, 0.7 + 0.34 * max(len(phases), 2))
    figures = [phase.watts for phase in phases if phase.watts is not None]
    _bars(axes, figures, 1.0)
    axes.set_yticks(range(len(phases)), [phase_name(phase) for phase in phases])
    axes.set_xlabel("watts (dark: 95 % over windows; light: 95 % by the source)")
    return svg(drawing)


def requests_plot(run: RunAnswer) -> str:
    """Plot the joules of a request: the idle part, then each service's, then what else ran."""
    rows: list[tuple[str, Figure]] = [] if run.idle_j is None else [("idle machine", run.idle_j)]
    rows += [(row.service, row.active_j) for row in run.services if row.active_j is not None][:MOST_SERVICES]
    rows = rows[::-1]
    drawing, axes = figure(7.6, 0.7 + 0.3 * max(len(rows), 2))
    factor, prefix = scale(max((entry.value for _, entry in rows), default=1.0))
    _bars(axes, [entry for _, entry in rows], factor)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_xlabel(f"{prefix}J per request at {run.rate_rps:g} requests/s")
    return svg(drawing)


def emio_plot(names: Sequence[str], costs: Sequence[IoCost]) -> str:
    """Plot joules per million I/O operations for each IP (figure 2 of Akram et al.); a group of bars for each name."""
    shares = list(costs[0].emio)
    drawing, axes = figure(7.6, 0.9 + 0.26 * len(names) * len(shares))
    height = 0.8 / len(shares)
    for place, share in enumerate(shares):
        values = [cost.emio[share].value for cost in costs]
        places = [row + (place - (len(shares) - 1) / 2) * height for row in range(len(names))]
        axes.barh(places, values, height=height, color=BRIGHT[place % len(BRIGHT)], label=f"IP {share}")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("joules per million I/O operations of 512 bytes (emio)")
    axes.legend(frameon=False, ncols=3)
    return svg(drawing)


def layers_plot(names: Sequence[str], costs: Sequence[IoCost]) -> str:
    """Plot joules per million I/O operations of user time alone, and of user and system time (their figure 3)."""
    share = "0.7" if "0.7" in costs[0].emio else next(iter(costs[0].emio))
    drawing, axes = figure(7.6, 0.9 + 0.5 * len(names))
    for place, (label, colour, values) in enumerate(
        (
            ("user", OTHER, [cost.user_emio[share].value for cost in costs]),
            ("user + system", BEST, [cost.emio[share].value for cost in costs]),
        )
    ):
        axes.barh([row + 0.38 * (place - 0.5) for row in range(len(names))], values, height=0.36, color=colour,
                  label=label)  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel(f"joules per million I/O operations, IP {share}")
    axes.legend(frameon=False)
    return svg(drawing)


def cores_plot(points: Sequence[tuple[int, float]], projected: Sequence[Projection]) -> str:
    """Plot cycles per I/O in the kernel on rising numbers of cores, and where two laws lead (their figure 5).

    ``points``: (cores, cycles).
    """
    drawing, axes = figure(7.6, 3.4)
    axes.plot([cores for cores, _ in points], [cycles for _, cycles in points], "o", color=BEST, label="measured")
    for projection, colour in zip(projected, BRIGHT, strict=False):
        axes.errorbar(
            [projection.cores], [projection.cycles],
            yerr=[[projection.cycles - projection.low], [projection.high - projection.cycles]],
            fmt="s", color=colour, label=f"{projection.law} law, {projection.beyond:.0f} times the most cores measured",
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xlabel("cores (projected: with the 95 % interval of a prediction)")
    axes.set_ylabel("cycles in the kernel per I/O")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper left")
    return svg(drawing)


def _bars(axes: Axes, figures: Sequence[Figure], factor: float) -> None:
    """Draw a bar for each figure with both of its intervals."""
    axes.barh(range(len(figures)), [entry.value / factor for entry in figures], color=OTHER, height=0.6)
    for row, entry in enumerate(figures):
        if entry.source_low != entry.source_high:
            axes.hlines(
                row, entry.source_low / factor, entry.source_high / factor, color=DEFAULT, linewidth=4, alpha=0.35
            )
        if math.isfinite(entry.low):
            axes.hlines(row, entry.low / factor, entry.high / factor, color="#111827", linewidth=1.2)
        axes.text(entry.value / factor, row + 0.36, f"{entry.value / factor:.3g}", fontsize=7, va="center")
