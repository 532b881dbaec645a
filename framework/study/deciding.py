"""Decisions of a running study.  Each is taken once and recorded, so that a resumed study keeps it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from framework.bench import Bench
from framework.critical_path.reduce import evidence_of, reduce
from framework.errors import FieldName, InputError, TrialFailed
from framework.model import Measurement, Study, StudyPlan, Trial
from framework.model.decisions import (
    ExpectedChange,
    ModelledPoint,
    SearchEnd,
    SmallRecommendation,
    StudyDecisions,
    Thresholds,
)
from framework.model.events import (
    BudgetFrozen,
    GainExpected,
    PriorComputed,
    SearchStopped,
    SmallerFound,
    SmallRecommended,
    SpaceReduced,
    TwinAsked,
    WarmupLengthened,
)
from framework.model.tune_request import BY_TRACES
from framework.objective.checks import JOINED, REMEDY
from framework.study.observations import searched_space
from framework.study.search_model import LEAST_TRIALS, outlook
from optimizer.analysis.backward_elimination import smaller
from optimizer.analysis.small_recommendation import SmallRecommendation as Proposed
from optimizer.analysis.small_recommendation import small_recommendation
from optimizer.base import Optimizer
from optimizer.space import Configuration, SearchSpace
from optimizer.trial import Observation

Decision = (
    WarmupLengthened | SpaceReduced | PriorComputed | BudgetFrozen | SearchStopped | SmallRecommended | SmallerFound
)
MOST_RISKY = 1  # changes of a small recommendation that can cost something: each is an arm of its own


class Decider:
    """Takes and records the decisions of one study.  ``study``: the study with the decisions taken so far."""

    def __init__(self, bench: Bench, study: Study) -> None:
        self._bench = bench
        self.study = study

    @property
    def plan(self) -> StudyPlan:
        return self.study.effective_plan

    @property
    def decisions(self) -> StudyDecisions:
        return self.study.decisions

    def warmup(self, default: Trial) -> bool:
        """Lengthen the warm-up if the default needs it; return whether it was, so that the default is measured again.

        The whole study has one length, taken from runs of the default (measurement.md) and lengthened at most once.
        Raises TrialFailed where the default does not settle.
        """
        needed = warmup_needed(default, self._bench.application.limits.unsettled)
        if needed <= self.plan.warmup_s or self.decisions.warmup_s is not None:
            return False
        seconds = float(math.ceil(needed))
        self._record(replace(self.decisions, warmup_s=seconds), WarmupLengthened(seconds))
        return True

    def reduction(self, default: Trial, space: SearchSpace) -> SearchSpace:
        """Return the space of the services that are worth tuning according to the default's traces."""
        plan = self.plan
        if plan.reduce == "none":
            return space
        reduction = self.decisions.reduction
        if reduction is None:
            valid = [m for m in default.measurements if not m.invalid]
            _check_joined(plan.reduce, valid)
            windows = [m.services for m in valid]
            tunable = {service: len(names) for service, names in space.groups.items()}
            reduction = reduce(
                plan.reduce,
                evidence_of(windows),
                tunable,
                thresholds=replace(Thresholds(), **plan.thresholds),
                bottlenecks=plan.bottlenecks,
                screened=plan.screened,
            )
            self._record(replace(self.decisions, reduction=reduction), SpaceReduced(reduction))
        return searched_space(space, reduction)

    def prior(self, space: SearchSpace) -> None:
        """Ask the application's twin for its predictions over ``space``.  Raises InputError where it has no twin."""
        plan, screen = self.plan, self._bench.screen
        if plan.prior == "none" or self.decisions.prior is not None:
            return
        if screen is None:
            raise InputError(FieldName("prior"), f" {plan.prior}: {self._bench.application.name} has no twin.json")

        def report(done: int, total: int) -> None:
            self._bench.watch(TwinAsked(done, total))

        default = space.default()
        points = tuple(
            ModelledPoint(
                {name: value for name, value in point.configuration.items() if value != default[name]},
                point.log_ratio,
            )
            for point in screen(space, plan.rate_rps, plan.seed, report)
        )
        self._record(replace(self.decisions, prior=points), PriorComputed(points))

    def budget(self, default: Trial, elapsed_s: float, testbeds: int = 1) -> None:
        """Freeze the number of configurations to those that the time limit leaves room for after ``elapsed_s``.

        ``testbeds``: number of those that measure side by side.
        """
        plan = self.plan
        if plan.time_limit_s is None or self.decisions.iterations is not None:
            return
        per_trial = default.phases["total"]
        per_pair = plan.arms_of_verdict * per_trial / plan.repetitions
        left_s = plan.time_limit_s - elapsed_s - math.ceil(plan.pairs / testbeds) * per_pair
        drift = 1 + (1 / plan.drift_every if plan.drift_every else 0)
        affordable = max(1, testbeds * int(left_s / (per_trial * drift)))
        iterations = min(plan.iterations, affordable)
        self._record(replace(self.decisions, iterations=iterations), BudgetFrozen(iterations))

    def ended(self, optimizer: Optimizer, trials: Sequence[Trial], searched: int) -> bool:
        """Return whether the search is over, because another trial is not worth its time; say what it would gain.

        Only a plan that asked for it (``auto``) ends so; ``searched``: number of configurations tried.  The answer
        depends on the observations alone, so that a resumed study gives it again.
        """
        plan = self.plan
        if plan.auto and self.decisions.ended is not None:
            return True
        if not plan.auto and self._bench.testbed.modelled:
            return False  # nobody waits for a model's trials, which take less time than the question
        prospects = outlook(optimizer.space, optimizer.observations, trials, plan.pairs)
        if prospects is None:
            return False
        self._bench.watch(GainExpected(prospects.gain, prospects.noise))
        if not plan.auto or searched < LEAST_TRIALS or prospects.worth_a_trial:
            return False
        end = SearchEnd(searched, prospects.gain, prospects.noise, prospects.trial_s)
        self._record(replace(self.decisions, ended=end), SearchStopped(end))
        return True

    def small(
        self, space: SearchSpace, observations: Sequence[Observation], best: Configuration
    ) -> SmallRecommendation | None:
        """Return the few changes of the best that the model of the trials misses; None where that is no other choice.

        A quick study has no time to show the gain of each risky change, so that it keeps none of them.  Parameters
        without an effect in the testbed's model go back first.
        """
        small = self.decisions.small
        if small is None:
            default = space.default()
            inert = {name: default[name] for name in self.decisions.inert if name in default}
            felt = space.canonical(best.replace(inert))
            full, risky = felt if space.is_feasible(felt) else best, 0 if self.plan.quick else MOST_RISKY
            proposed = small_recommendation(space, observations, full, most_risky=risky)
            small = SmallRecommendation({}, full.to_dict(), ()) if proposed is None else _recorded(proposed)
            self._record(replace(self.decisions, small=small), SmallRecommended(small))
        same = small.values == small.full == best.to_dict() and all(c.risk == "none" for c in small.changes)
        return None if same or not small.changes else small

    def smaller(
        self, space: SearchSpace, observations: Sequence[Observation], best: Configuration, most: int
    ) -> Sequence[Configuration]:
        """Return at most ``most`` candidates that change less than the best, the smallest first."""
        candidates = self.decisions.minimal
        if candidates is None:
            proposed = smaller(space, observations, best, most=most) if most else ()
            candidates = tuple(candidate.configuration.to_dict() for candidate in proposed)
            self._record(replace(self.decisions, minimal=candidates), SmallerFound(candidates))
        return [Configuration(values) for values in candidates]

    def _record(self, decisions: StudyDecisions, event: Decision) -> None:
        self.study = replace(self.study, decisions=decisions)
        self._bench.store.set_decisions(self.study.id, decisions)
        self._bench.store.add_event(self.study.id, event)
        self._bench.watch(event)


def _check_joined(kind: str, windows: Sequence[Measurement]) -> None:
    """Raise InputError for a reduction by traces that the services' spans do not join: the entry would have it all."""
    shares = [window.joined for window in windows if window.joined is not None]
    if kind in BY_TRACES and shares and statistics.median(shares) < JOINED:
        raise InputError(
            FieldName("reduce"),
            f" {kind}: services have spans in {statistics.median(shares):.0%} of the default's traces, so the critical "
            f"path says little; {REMEDY}; allowed without it: none, bottlenecks:FILE, screening:STUDY",
        )


def _recorded(proposed: Proposed) -> SmallRecommendation:
    """Return a proposal as the study records it."""
    changes = tuple(
        ExpectedChange(kept.change.names, kept.change.value, kept.log_ratio, kept.deviation, kept.risk)
        for kept in proposed.kept
    )
    configuration, full = proposed.configuration.to_dict(), proposed.full.to_dict()
    return SmallRecommendation(configuration, full, changes, proposed.loss, proposed.loss_deviation)


def warmup_needed(default: Trial, most_unsettled: float) -> float:
    """Return the median over the default's repetitions of the truncation that MSER chooses [s].

    Of several request rates, the one that needs most counts, because all windows of a study are alike.  MSER is a noisy
    estimate on one run, so that one unsettled repetition says nothing.  Raises TrialFailed when there
    are several, and more than the share ``most_unsettled`` of them had not settled by the middle of warm-up and window.
    """
    windows = [m for m in default.measurements if not m.invalid]
    rates = dict.fromkeys(window.rate_rps for window in windows)
    at_each = ([m.warmup_needed_s for m in windows if m.rate_rps == rate] for rate in rates)
    return max((_median_needed(needed, most_unsettled) for needed in at_each), default=0.0)


def _median_needed(valid: Sequence[float | None], most_unsettled: float) -> float:
    settled = [needed for needed in valid if needed is not None]
    if len(valid) > 1 and len(settled) < (1 - most_unsettled) * len(valid):
        raise TrialFailed(
            "the default has not settled by the middle of warm-up and window; a longer warm-up or window is needed"
        )
    return statistics.median_low(settled) if settled else 0.0
