"""A guard's report: one self-contained page of its audit log."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from framework.model.guard_record import Acted, Began, Decided, EndedAt, Entry, JobNoted, Noted, Summary
from framework.report.figure import BAD, BEST, DEFAULT, OTHER, STYLE, svg
from framework.report.page import ENVIRONMENT

SHOWN = 400  # changes listed in the page; the audit log has all
POINTS = 4000  # of a figure's lines


def guard_page(entries: Sequence[Entry]) -> str:
    """Write the page of a guard in any state; it loads nothing from elsewhere."""
    return ENVIRONMENT.get_template("guard.html").render(guard_contents(entries))


def guard_contents(
    entries: Sequence[Entry], summary: Summary | None = None, since_s: float | None = None
) -> dict[str, Any]:
    """Return the variables of a guard's template.  ``summary``: of the whole guard, where the entries are its beginning
    and those after ``since_s`` only.
    """
    began = next(entry for entry in entries if isinstance(entry, Began))
    decided = [entry for entry in entries if isinstance(entry, Decided)]
    acted = [entry for entry in entries if isinstance(entry, Acted)]
    return {
        "began": began,
        "summary": summary or summarised(entries),
        "since_s": since_s,
        "ended": next((entry for entry in entries if isinstance(entry, EndedAt)), None),
        "figure": Markup(guard_figure(began, decided, acted)) if decided else None,
        "acted": acted[-SHOWN:],
        "left_out": max(0, len(acted) - SHOWN),
        "jobs": [entry for entry in entries if isinstance(entry, JobNoted)],
        "notes": [entry for entry in entries if isinstance(entry, Noted)],
    }


def summarised(entries: Sequence[Entry]) -> Summary:
    """Sum up the decisions of a guard."""
    began = next(entry for entry in entries if isinstance(entry, Began))
    summary = Summary(began.host, began.power)
    for entry in entries:
        if isinstance(entry, Decided):
            summary.take(entry)
    return summary


def guard_figure(began: Began, decided: Sequence[Decided], acted: Sequence[Acted]) -> str:
    """Draw latency against target, rate, cores of LC and BE and what BE may have, over time; SVG."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    decided = thinned(decided, POINTS)
    times = np.array([entry.time_s for entry in decided])
    host = began.host
    with rc_context(STYLE):
        drawing = Figure(figsize=(8.4, 6.2), layout="constrained")
        tail, rate, cores = drawing.subplots(3, 1, sharex=True, height_ratios=(3, 1.3, 2))
        latency = _column(decided, "latency_ms")
        tail.plot(times, latency, color=BEST, linewidth=1.2, label=f"p{100 * began.quantile:g}")
        tail.axhline(host.target_ms, color=BAD, linewidth=1.0, linestyle="--", label=f"target {host.target_ms:g} ms")
        missed = latency > host.target_ms
        tail.plot(times[missed], latency[missed], "o", color=BAD, markersize=3, label="missed")
        blind = np.isnan(latency)
        tail.plot(times[blind], np.zeros(blind.sum()), "|", color=BAD, markersize=6)
        top = 1.6 * host.target_ms
        tail.set_ylim(0, max(top, float(np.nanpercentile(latency, 99.5)) if not blind.all() else top))
        tail.set_ylabel("latency [ms]")
        tail.legend(frameon=False, ncols=3, loc="upper left")
        rate.plot(times, _column(decided, "rate_rps"), color=DEFAULT, linewidth=1.0)
        rate.set_ylabel("requests/s")
        rate.set_ylim(bottom=0)
        lc, be = _column(decided, "lc_cores"), _column(decided, "be_cores")
        cores.fill_between(times, 0, np.nan_to_num(lc), color=OTHER, linewidth=0, label="LC")
        cores.fill_between(times, np.nan_to_num(lc), np.nan_to_num(lc) + np.nan_to_num(be), color=BEST, alpha=0.6,
                           linewidth=0, label="BE")  # fmt: skip
        given = [entry.decision.setting.cores if entry.decision.setting.running else 0.0 for entry in decided]
        cores.step(times, given, where="post", color="black", linewidth=0.9, label="BE may have")
        cores.axhline(host.cores, color=DEFAULT, linewidth=0.8, linestyle=":")
        cores.set_ylim(0, 1.25 * host.cores)
        cores.set_ylabel("cores used")
        cores.set_xlabel("seconds")
        cores.legend(frameon=False, ncols=3, loc="upper left")
        for axes in (tail, cores):
            for moment in sorted({round(entry.time_s, 1) for entry in acted if entry.knob.endswith("frozen")}):
                axes.axvline(moment, color="#d1d5db", linewidth=0.6, zorder=0)
    return svg(drawing)


def thinned(decided: Sequence[Decided], most: int) -> Sequence[Decided]:
    """Return at most so many decisions: of each stretch of time the one with the highest latency, or without any."""
    if len(decided) <= most:
        return decided
    edges = np.linspace(0, len(decided), most + 1).astype(int)
    stretches = (decided[begin:end] for begin, end in itertools.pairwise(edges.tolist()))
    return [max(stretch, key=_badness) for stretch in stretches]


def _badness(entry: Decided) -> float:
    latency = entry.sample.latency_ms
    return math.inf if latency is None else latency


def _column(decided: Sequence[Decided], name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    values = [getattr(entry.sample, name) for entry in decided]
    return np.array([np.nan if value is None else value for value in values], float)
