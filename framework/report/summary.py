"""A study in numbers: the source of the terminal's text, of ``--json`` and of the HTML report."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from framework.compose.tracing_notes import agents_note
from framework.critical_path.reduce import alternatives, evidence_of
from framework.model import (
    Application,
    Estimate,
    Measurement,
    ServiceType,
    Study,
    Term,
    Trial,
    Verdict,
)
from framework.model.decisions import Reduction, Thresholds
from framework.model.events import NotesGiven
from framework.model.load_generators import LOOPS_IN_WORDS
from framework.objective.checks import CONFIDENT_REQUESTS, JOINED, not_joined
from framework.report.changes import Change, changes
from framework.report.headline import default_and_best, finished_trials, headline
from framework.report.outcomes import FrontPoint, Outcome, front, outcomes
from framework.report.rates import RATIO, over_rates, ratio_level
from framework.report.recommendation import RecommendedChange, recommended, rest
from framework.report.speed import EqualSpeed, equal_speed
from framework.report.transfer import TransferUse, transfer_use
from framework.study.search_model import SearchModel, search_model
from framework.study.verdict import FULL, SMALL
from optimizer.errors import OptimizerError
from optimizer.registry import load
from optimizer.space import SearchSpace, Value

# Phases of a repetition that are Tailor's own work; the rest is reset, warm-up and measurement.
OVERHEAD_PHASES = ("render", "read back", "read", "evaluate")


@dataclass(frozen=True, slots=True)
class Level:
    """The objective of a configuration: from the verdict's fresh runs where there are some, else from its trial."""

    trial: int
    value: Estimate
    fresh: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of a study.  Times in seconds, the objective in its own unit (``unit``)."""

    study: Study
    objective: str
    unit: str
    default: Level | None
    best: Level | None
    changes: tuple[Change, ...]
    verdict: Verdict | None
    headline: str
    trials: Mapping[str, int]  # state -> count
    invalid_repetitions: int
    low_confidence: bool
    loop: str  # in words, where the load generator's is not open: what its latencies leave out
    differences: tuple[str, ...]  # of the study's deployment to the user's own
    agents: str  # that spans are made by agents, which cost time; empty where they are not
    not_joined: str  # what it means that few traces have spans of services; empty where enough have
    standins: tuple[str, ...]
    images: Mapping[str, str]
    phases: Mapping[str, float]  # mean seconds per repetition
    overhead: float | None  # share of Tailor's own phases in a repetition's time
    cpu: Mapping[str, float]  # mean share of the machine
    reduction: Reduction | None
    unused_priors: bool  # the reduction gives priors, and the optimizer does not use them
    subsets: tuple[Reduction, ...]  # the services that each cut would keep, from the default's traces
    outcomes: tuple[Outcome, ...]  # limits on the outcome, and further objectives
    front: tuple[FrontPoint, ...]  # the Pareto set, where there are several objectives
    equal_speed: EqualSpeed | None  # the comparisons, corrected to equal speed in every window
    transfer: TransferUse | None  # what was taken over from studies of other applications
    smaller: str | None  # the result of trying recommendations that change less
    per_trial_s: float | None
    model: SearchModel | None  # of the search; also None where it was not asked for: it takes longest

    @property
    def recommended(self) -> tuple[RecommendedChange, ...]:
        """The changes with tied parameters in one line, without parameters that have no effect in the model."""
        inert = set(self.study.decisions.inert)
        felt = [change for change in self.changes if f"{change.service}.{change.parameter}" not in inert]
        return recommended(self.study, felt)

    @property
    def rest(self) -> str:
        """A sentence on all but the first ten lines of the recommendation; empty where there are no more."""
        return rest(self.recommended)

    @property
    def disagreement(self) -> str:
        """A sentence where the medians of both arms contradict the verdict, which compares pairs; empty elsewhere.

        They do where their log ratio lies outside the verdict's interval.
        """
        verdict, levels = self.verdict, (self.default, self.best)
        if verdict is None or verdict.per_rate or verdict.scale != "ratio" or None in levels:
            return ""
        medians = [level.value.value for level in levels if level is not None]
        if min(medians) <= 0 or verdict.log_ratio.low <= math.log(medians[1] / medians[0]) <= verdict.log_ratio.high:
            return ""
        return (
            f"the medians of all windows ({medians[0]:.4g} and {medians[1]:.4g} {self.unit}) contradict the verdict, "
            "which compares windows of one pair: the machine's speed changed from pair to pair, or a few pairs decide; "
            "look at the pairs, and measure again"
        )

    @property
    def refuted(self) -> bool:
        """Whether there is a verdict that shows no improvement."""
        return self.study.verdict is not None and self.study.verdict.statement != "improvement"


def summarise(
    study: Study,
    trials: Sequence[Trial],
    application: Application,
    types: Mapping[str, ServiceType],
    *,
    events: Sequence[Mapping[str, Any]] = (),
    with_model: bool = True,
) -> Summary:
    """Summarise a study in any state.

    ``events``: of its store.  ``with_model``: fit the model of its search, which takes longest.
    """
    finished = finished_trials(trials)
    valued = [t for t in finished if t.told_value is not None]
    default, best = default_and_best(study, trials, application.objective)
    repetitions = [m for t in finished for m in t.measurements]
    valid = [m for m in repetitions if not m.invalid]
    phases = _mean_of(_phases(finished))
    return Summary(
        study=study,
        objective=objective_name(application.objective.terms) + over_rates(study.plan),
        unit=RATIO if study.plan.rates else _unit(application.objective.terms),
        default=_level(_told(default, study), "default", study.verdict),
        best=_level(_told(best, study), "best", study.verdict),
        changes=_changes(study, best, application, types) if default and best else (),
        verdict=study.verdict,
        headline=headline(study, default, best),
        trials=dict(Counter(str(t.state) for t in trials)),
        invalid_repetitions=sum(bool(m.invalid) for m in repetitions),
        low_confidence=any(m.requests < CONFIDENT_REQUESTS for m in valid),
        loop=LOOPS_IN_WORDS.get(application.loop, ""),
        differences=_differences(events),
        agents=agents_note(application.tracing),
        not_joined=_not_joined(valid),
        standins=tuple(sorted({image for t in finished for image in t.standins})),
        images=default.images if default else {},
        phases=phases,
        overhead=_overhead(phases),
        cpu=_mean_of([m.cpu for m in valid]),
        reduction=study.decisions.reduction,
        unused_priors=study.plan.reduce == "soft" and not _takes_priors(study.plan.optimizer),
        subsets=_subsets(study, default) if default is not None else (),
        outcomes=outcomes(finished, default, best, application.objective) if default and best else (),
        front=front(finished, application.objective),
        equal_speed=equal_speed(study, finished, application.objective),
        transfer=transfer_use(study, finished),
        smaller=_smaller(study, finished, best),
        per_trial_s=statistics.mean([t.phases["total"] for t in valued if "total" in t.phases]) if valued else None,
        model=search_model(study, finished) if with_model else None,
    )


def _differences(events: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    given = [note for event in events if event["kind"] == NotesGiven.kind for note in event["notes"]]
    return tuple(dict.fromkeys(given))


def _not_joined(valid: Sequence[Measurement]) -> str:
    shares = [m.joined for m in valid if m.joined is not None]
    return not_joined(statistics.mean(shares)) if shares and statistics.mean(shares) < JOINED else ""


def _takes_priors(optimizer: str) -> bool:
    try:
        return load(optimizer).uses_priors
    except OptimizerError:  # a plug-in that is gone: assume that it used them
        return True


def _subsets(study: Study, default: Trial) -> tuple[Reduction, ...]:
    windows = [m.services for m in default.measurements if not m.invalid]
    tunable = {service: len(names) for service, names in SearchSpace.from_dict(study.space).groups.items()}
    return alternatives(evidence_of(windows), tunable, replace(Thresholds(), **study.plan.thresholds))


def _smaller(study: Study, finished: Sequence[Trial], best: Trial | None) -> str | None:
    """Say in a sentence whether a part of the recommendation is enough; None where that was not asked."""
    small, candidates = study.decisions.small, study.decisions.minimal
    if best is None or (small is None and candidates is None):
        return None
    if SMALL in study.rivals and best.purpose != "minimal":
        return "the few changes that the model of the trials misses are not as good as all that the search made"
    if best.purpose in ("minimal", "verdict"):
        return _made_smaller(study, best)
    if not candidates and (small is None or not small.changes):
        return "the model of the trials found no smaller recommendation to try"
    if candidates and any(t.purpose == "minimal" for t in finished):
        tried = f"{len(candidates)} smaller recommendations" if len(candidates) > 1 else "a smaller recommendation"
        return f"{tried} could not be shown to be as good as the full one (95 % bound of the loss below 5 %)"
    return None


def _changes(
    study: Study, best: Trial, application: Application, types: Mapping[str, ServiceType]
) -> tuple[Change, ...]:
    dependent = SearchSpace.from_dict(study.space).dependents.texts
    return changes(_default_of(study, best), best.configuration, application, types, dependent, best.passed)


def _made_smaller(study: Study, best: Trial) -> str:
    """Say how many parameters are still changed, of how many, and what fresh runs say of the difference."""
    default = _default_of(study, best)
    own = _searched(study, default)
    changed = _changed(best.configuration, own)
    small = study.decisions.small
    searched = "all that the search made" if small is None else f"the {_changed(small.full, own)} of the search"
    compared = study.rivals.get(FULL) or study.rivals.get(f"{FULL} to {SMALL}")
    shown = {
        None: "",
        "no worse": ", and no worse in fresh runs (95 % bound of the loss below 5 %)",
        "undecided": ", and fresh runs show no loss (they leave open more than 5 %)",
    }[compared.no_worse if compared is not None else None]
    if small is not None and changed == _changed(small.full, own):
        return f"values of tied parameters were made equal, and all {changed} are still changed{shown}"
    return f"the recommendation was made smaller: {changed} parameters changed in place of {searched}{shown}"


def _changed(values: Mapping[str, Value], default: Mapping[str, Value]) -> int:
    return sum(value != default[name] for name, value in values.items() if name in default)


def _searched(study: Study, default: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return the defaults of the parameters whose values do not follow from others."""
    dependent = SearchSpace.from_dict(study.space).dependents.names
    return {name: value for name, value in default.items() if name not in dependent}


def _default_of(study: Study, trial: Trial) -> Mapping[str, Value]:
    """Return the default of every parameter of a trial, also of those that an edit of the space removed."""
    known: dict[str, Value] = {}
    for edit in study.decisions.edits:
        known |= edit.default
    known |= SearchSpace.from_dict(study.space).default()
    return {name: known[name] for name in trial.configuration}


def objective_name(terms: Sequence[Term]) -> str:
    """Write an objective as text: ``p95`` or ``p95 + 0.5*mean - 0.1*throughput``."""
    parts = [("" if t.weight == 1 else f"{t.weight:g}*") + t.quantity for t in terms]
    return " + ".join(parts).replace("+ -", "- ")


def _unit(terms: Sequence[Term]) -> str:
    return "" if any(t.quantity in ("throughput", "cpu", "errors", "cost", "energy") for t in terms) else "ms"


def _told(trial: Trial | None, study: Study) -> Trial | None:
    """Return a trial of several testbeds with the value that the optimizer was told, on the reference's scale."""
    if trial is None or not study.plan.testbeds or trial.value is None or trial.told_value is None:
        return trial
    return replace(trial, value=trial.told_value)


def _level(trial: Trial | None, label: str, verdict: Verdict | None) -> Level | None:
    if trial is None or trial.value is None:
        return None
    if verdict is not None and verdict.per_rate:
        return Level(trial.number, ratio_level(verdict, label), fresh=True)
    if verdict is not None:
        return Level(trial.number, verdict.default_ms if label == "default" else verdict.best_ms, fresh=True)
    half = 1.96 * trial.standard_error if trial.standard_error is not None else math.inf
    count = sum(not m.invalid for m in trial.measurements)
    if trial.value <= 0 or not math.isfinite(half):
        return Level(trial.number, Estimate(trial.value, -math.inf, math.inf, count), fresh=False)
    estimate = Estimate(trial.value, trial.value * math.exp(-half), trial.value * math.exp(half), count)
    return Level(trial.number, estimate, fresh=False)


def _phases(trials: Sequence[Trial]) -> list[Mapping[str, float]]:
    """Return phase -> seconds of each valid repetition, without the sum of the steps of its deployment."""
    repetitions: dict[tuple[int, int, int], dict[str, float]] = {}
    for trial in trials:
        for m in trial.measurements:
            if m.invalid:
                continue
            own = repetitions.setdefault((trial.number, m.repetition, m.attempt), {})
            for name, seconds in m.phases.items():
                if name != "deploy":
                    own[name] = own.get(name, 0.0) + seconds  # of several rates, a repetition has several windows
    return list(repetitions.values())


def _mean_of(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each key over rows; a key that a row lacks counts as zero there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: sum(row.get(name, 0.0) for row in rows) / len(rows) for name in names}


def _overhead(phases: Mapping[str, float]) -> float | None:
    total = sum(phases.values())
    return sum(phases.get(name, 0.0) for name in OVERHEAD_PHASES) / total if total else None
