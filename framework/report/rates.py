"""Words and rows of a study of several request rates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framework.model import Estimate, Measurement, StudyPlan, Verdict

RATIO = "times the default"
"""The unit of a value over several rates."""


def rates_in_words(plan: StudyPlan) -> str:
    """Return such as ``100 requests/s``, or ``100, 200 and 300 requests/s (worst case)``."""
    *others, last = (f"{rate:g}" for rate in plan.measured_rates)
    rates = f"{', '.join(others)} and {last}" if others else last
    return f"{rates} requests/s{f' ({_over(plan)})' if plan.rates else ''}"


def _over(plan: StudyPlan) -> str:
    if plan.over == "worst":
        return "worst case"
    return f"mean weighted {':'.join(f'{weight:g}' for weight in plan.weights)}" if plan.weights else "mean"


def over_rates(plan: StudyPlan) -> str:
    """Return the addition to the name of an objective, such as ``, worst of 3 rates``; empty for one rate."""
    return f", {plan.over} of {len(plan.rates)} rates" if plan.rates else ""


def where(plan: StudyPlan, verdict: Verdict) -> str:
    """Return the addition to a statement of the verdict: at which of several rates, or over them."""
    if not plan.rates:
        return ""
    if verdict.rate_rps is not None:
        return f" at the worst of {len(plan.rates)} rates ({verdict.rate_rps:g} requests/s)"
    return f" in the {'weighted ' if plan.weights else ''}geometric mean over {len(plan.rates)} rates"


def ratio_level(verdict: Verdict, label: str) -> Estimate:
    """Return the level of an arm as a ratio to the default, which itself is 1."""
    if label == "default":
        return Estimate(1.0, 1.0, 1.0, verdict.pairs)
    gain = verdict.gain
    return Estimate(1 - gain.value, 1 - gain.high, 1 - gain.low, verdict.pairs)


def at_highest(plan: StudyPlan, windows: Iterable[Measurement]) -> list[Measurement]:
    """Return the windows at the highest of several rates; all windows of a study of one rate."""
    return [window for window in windows if not plan.rates or window.rate_rps == plan.rates[-1]]


def at_highest_in_words(plan: StudyPlan) -> str:
    """Return the addition to a figure's title, such as `` at 300 requests/s``; empty for one rate."""
    return f" at {plan.rates[-1]:g} requests/s" if plan.rates else ""


def rate_lines(verdict: Verdict) -> Sequence[str]:
    """Describe the comparison at each rate, a line each; none for a study of one rate."""
    lines = []
    for result in verdict.per_rate:
        gain, low, high = (100 * x for x in (result.gain.value, result.gain.low, result.gain.high))
        lines.append(
            f"at {result.rate_rps:g} requests/s: {result.default_ms.value:.2f} -> {result.best_ms.value:.2f}, "
            f"gain {gain:+.1f} % [{low:+.1f}, {high:+.1f}] ({result.statement})"
        )
    return lines
