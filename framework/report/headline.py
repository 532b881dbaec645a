"""The verdict of a study in one sentence; a module of its own, so that listing studies needs no other report."""

from __future__ import annotations

from collections.abc import Sequence

from framework.model import Objective, Study, Trial, TrialState
from framework.objective import best_of
from framework.report.arms import chosen
from framework.report.rates import where


def finished_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that are neither running nor aborted."""
    return [trial for trial in trials if trial.state not in (TrialState.RUNNING, TrialState.ABORTED)]


def default_and_best(study: Study, trials: Sequence[Trial], objective: Objective) -> tuple[Trial | None, Trial | None]:
    """Return the trial of the default and that of the best configuration; None without a value.

    The best is the study's choice; before it is made, the best so far.
    """
    valued = [trial for trial in finished_trials(trials) if trial.told_value is not None]
    searched = [trial for trial in valued if trial.purpose in ("default", "search")]
    default = next((trial for trial in valued if trial.purpose == "default"), None)
    return default, chosen(study, valued) or best_of(searched, objective)


def headline(study: Study, default: Trial | None, best: Trial | None) -> str:
    """Return the verdict in one sentence, in the words of measurement.md; a modelled study is named as such first."""
    return ("Modelled, not measured.  " if study.modelled else "") + _verdict(study, default, best)


def _verdict(study: Study, default: Trial | None, best: Trial | None) -> str:
    if default is None or best is None:
        return "The default configuration has no value yet."
    verdict = study.verdict
    if verdict is None:
        if not study.effective_plan.iterations:
            return "Nothing was searched: named configurations were compared with the default."
        if best.configuration == default.configuration:
            return "No improvement shown: no configuration that was tried measured better than the default."
        return "No verdict yet: the best configuration has not been compared with the default on fresh data."
    gain, low, high = (100 * x for x in (verdict.gain.value, verdict.gain.low, verdict.gain.high))
    size = "" if verdict.scale == "ratio" else " of the default's size"
    if not verdict.coverage:
        return (
            f"No improvement shown: {verdict.pairs} fresh pairs (gain {gain:+.1f} %{size}) are too few for an interval."
        )
    place = where(study.plan, verdict)
    interval = f"{100 * verdict.coverage:.3g} % interval {low:+.1f} to {high:+.1f} %"
    numbers = f"{gain:+.1f} %{size} ({interval}, {verdict.pairs} fresh interleaved pairs)"
    if verdict.statement == "improvement":
        return f"Improvement: the best configuration is {numbers} better than the default{place}."
    if verdict.statement == "worse":
        return f"Worse: on fresh data the best configuration of the search gains {numbers}{place}: keep the default."
    return f"No improvement shown: the gain is {numbers}{place}, and the interval contains zero."
