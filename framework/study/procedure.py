"""The order of a study: the default first, then the search with drift baselines, confirmation, and the verdict.

A resumed study runs here too: trials in the store are not measured again, and the optimizer's state is restored by
replaying the recorded asks and tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from framework.bench import Bench
from framework.config.space import along_the_path
from framework.errors import TrialFailed
from framework.model import Purpose, Study, StudyPlan, Trial, TrialState
from framework.model.events import PhaseStarted, ReplayDiverged, WaitStarted
from framework.model.study import TrialSpec
from framework.objective import best_of, keeps
from framework.study.deciding import Decider
from framework.study.new_optimizer import new_optimizer
from framework.study.observations import imported_observations, in_space, observation
from framework.study.trial_runner import TrialRunner
from framework.study.verdict import FinalComparison
from optimizer.base import Optimizer
from optimizer.errors import SearchExhausted
from optimizer.space import Configuration, SearchSpace
from optimizer.trial import Observation

GIVE_UP_FACTOR = 3.0  # only clear losers stop early: runs of one configuration differ by up to 23 % (measurement.md)
DISTURBED_S = (30.0, 120.0, 0.0)
CONFIRM_SEED = 500


class Procedure:
    """Runs a study to its verdict, from the point that the store has recorded."""

    def __init__(self, bench: Bench, study: Study, space: SearchSpace) -> None:
        self._bench = bench
        self._study_id = study.id
        self._decider = Decider(bench, study)
        self._space = space
        self._whole_default = space.default()
        self._runner = TrialRunner(bench, study.id, study.effective_plan)
        self._trials = self._runner.recorded
        self._began = bench.clock.monotonic()

    @property
    def _plan(self) -> StudyPlan:
        return self._decider.plan

    def run(self) -> Study:
        """Measure default, search and verdict; return the study from the store.  Raises TrialFailed, Transient."""
        default = self._default()
        self._space = self._decider.reduction(default, self._space)
        times = [service for m in default.measurements if not m.invalid for service in m.services]
        self._space = along_the_path(self._space, times)
        self._decider.prior(self._space)
        self._decider.budget(default, self._bench.clock.monotonic() - self._began, max(1, len(self._bench.team)))
        optimizer = self._optimizer()
        self._search(optimizer)
        best = self._recommended(optimizer)
        self._bench.store.set_best(self._study_id, best.number)
        self._compare(best)
        return self._bench.store.get(self._study_id)

    def _compare(self, best: Trial) -> None:
        """Reach the verdict on the best and on the few of its changes that matter; after an improvement, try fewer."""
        comparison = FinalComparison(
            self._bench.store,
            self._study_id,
            self._plan,
            self._space,
            self._bench.application.objective,
            self._trials,
            self._measure_groups,
        )
        observations = [point for trial in self._candidates() for point in self._observations(trial)]
        full = self._in_space(best) or self._space.default()
        small = self._decider.small(self._space, observations, full) if self._makes_small(full) else None
        verdict, chosen = comparison.verdict(best.configuration, small)
        if verdict is None or verdict.statement != "improvement" or not self._plan.minimal:
            return
        full = self._space.validate({name: chosen[name] for name in self._space.names})
        more = self._plan.minimal - (self._decider.decisions.small is not None)
        comparison.shrink(chosen, self._decider.smaller(self._space, observations, full, more))

    def _measure_groups(self, groups: Sequence[Sequence[TrialSpec]]) -> None:
        """Run each trial of the verdict's groups that is not there yet, group after group."""
        for group in groups:
            done = {t.label for t in self._trials.finished(group[0].purpose) if t.pair == group[0].pair}
            for spec in group:
                if spec.label not in done:
                    self._runner.run(spec)

    def _makes_small(self, full: Configuration) -> bool:
        """Return whether the verdict compares the few changes that matter with all of them.

        Not in a study of an older Tailor that is resumed in its verdict: arms are measured side by side or not at all.
        """
        asked = bool(self._plan.minimal and self._plan.pairs) and full != self._space.default()
        return asked and (self._decider.decisions.small is not None or not self._trials.finished("verdict"))

    # ------------------------------------------------------------------ the default

    def _default(self) -> Trial:
        # A default without a value ended its study; a study that is resumed after that measures it again.
        done = [t for t in self._trials.finished("default") if t.state is TrialState.COMPLETED]
        default = measured_default(done[-1] if done else self._first_default())
        while self._decider.warmup(default):
            self._runner.follow(self._plan)
            default = measured_default(self._first_default())
        return default

    def _first_default(self) -> Trial:
        """Measure the default; try again after a while where a disturbance of the machine was the only obstacle."""
        for wait_s in DISTURBED_S:
            default = self._trial(self._space.default(), "default", label="default")
            disturbed = any(m.invalid for m in default.measurements) and not self._bench.testbed.modelled
            if default.state is not TrialState.FAILED or not disturbed:
                break
            self._bench.watch(WaitStarted("the machine is disturbed", wait_s))
            self._bench.clock.sleep(wait_s)
        return default

    # ------------------------------------------------------------------ the search

    def _optimizer(self) -> Optimizer:
        """Return a new optimizer after a replay of the study's recorded asks and tells."""
        plan = self._plan
        optimizer = new_optimizer(plan, self._decider.decisions, self._space)
        optimizer.tell(self._imported())
        if plan.initial == "default":  # from another start, the search does not know the default
            optimizer.tell(self._observations(self._trials.finished("default")[-1]))
        diverged = False
        edited = max((edit.after for edit in self._decider.decisions.edits), default=0)
        for trial in self._trials.finished("search"):
            if not diverged and trial.ask is not None and trial.number > edited:
                [suggestion] = optimizer.ask()
                diverged = suggestion.configuration != trial.configuration
                if diverged:
                    self._bench.store.add_event(self._study_id, ReplayDiverged(trial.number))
            optimizer.tell(self._observations(trial))
        return optimizer

    def _imported(self) -> list[Observation]:
        default = self._trials.finished("default")[-1].value
        if default is None or default <= 0:
            return []
        return imported_observations(self._decider.decisions.history, self._space, default)

    def _try_imported(self, optimizer: Optimizer) -> None:
        """Measure the best imported configuration first: only a configuration that was measured here can be chosen."""
        known = [(point.value, point.configuration) for point in self._imported() if point.value is not None]
        default = self._trials.finished("default")[-1].value
        value, configuration = min(known, key=lambda pair: pair[0], default=(math.inf, None))
        if (
            configuration is not None
            and default is not None
            and value < default
            and not self._trials.finished("search")
        ):
            optimizer.tell(self._observations(self._trial(configuration, "search", label="known")))

    def _search(self, optimizer: Optimizer) -> None:
        self._try_imported(optimizer)
        done = len(self._trials.finished("search"))
        for index in range(done, self._plan.iterations):
            if self._target_reached() or self._decider.ended(optimizer, self._trials.all(), index):
                return
            if index in self._drift_places() and not self._baseline_since(index):
                self._trial(self._space.default(), "drift", label="default")
            self._bench.watch(PhaseStarted("ask"))
            began = self._bench.clock.monotonic()
            try:
                [suggestion] = optimizer.ask()
            except SearchExhausted:
                return
            ask_s = self._bench.clock.monotonic() - began
            incumbent = min((t.value for t in self._trials.valued() if t.value is not None), default=None)
            give_up = incumbent * GIVE_UP_FACTOR if incumbent is not None and incumbent > 0 else None
            wanted = self._spec(suggestion.configuration, "search")
            trial = self._runner.run(replace(wanted, ask=suggestion.ask, give_up_above=give_up, ask_s=ask_s))
            self._bench.watch(PhaseStarted("tell"))
            began = self._bench.clock.monotonic()
            optimizer.tell(self._observations(trial))
            tell_s = self._bench.clock.monotonic() - began
            self._bench.store.annotate_trial(replace(trial, phases={**trial.phases, "tell": tell_s}))

    def _drift_places(self) -> frozenset[int]:
        """Return the search trials before which the default is measured again: one random place in each block."""
        every = self._plan.drift_every
        if not every:
            return frozenset()
        rng = np.random.default_rng([self._plan.seed, 7])
        blocks = range(0, self._plan.iterations - every + 1, every)
        return frozenset(int(block + rng.integers(1, every + 1)) for block in blocks)

    def _baseline_since(self, index: int) -> bool:
        """Return whether the drift baseline before search trial ``index`` is measured already (in a resumed study)."""
        searched = 0
        for trial in self._trials.all():
            searched += trial.purpose == "search" and trial.state is not TrialState.ABORTED
            if searched == index and trial.purpose == "drift" and trial.state is not TrialState.ABORTED:
                return True
        return False

    def _target_reached(self) -> bool:
        """Return whether the incumbent is at or below the target and a fresh measurement confirms it."""
        target = self._plan.target_ms
        best = self._best()
        if target is None or best.value is None or best.value > target:
            return False
        if not keeps(best, self._bench.application.objective):
            return False
        if any(t.configuration == best.configuration for t in self._trials.finished("confirm")):
            return self._confirmed(best.configuration, target)
        self._trial(best.configuration, "confirm", first_seed=CONFIRM_SEED)
        return self._confirmed(best.configuration, target)

    def _confirmed(self, configuration: Configuration, target: float) -> bool:
        fresh = [t for t in self._trials.finished("confirm") if t.configuration == configuration]
        return any(t.value is not None and t.value <= target for t in fresh)

    def _best(self) -> Trial:
        """Return the trial with the smallest drift-corrected value that keeps the limits; it may be the default."""
        best = best_of(self._candidates(), self._bench.application.objective)
        if best is None:
            raise TrialFailed("no trial has a value")  # the default has one, or the study would have ended
        return best

    def _candidates(self) -> list[Trial]:
        """Return the trials that may be chosen: default and search, with a value, points of the current space."""
        return [
            t for t in self._trials.valued() if t.purpose in ("default", "search") and self._in_space(t) is not None
        ]

    def _recommended(self, optimizer: Optimizer) -> Trial:
        """Return the trial of the configuration that the optimizer recommends.

        Return the best measured trial instead where the recommendation was not measured here (a result from elsewhere),
        or where the optimizer does not know the default and the default measured better.
        """
        wanted, best = optimizer.recommend(), self._best()
        recommended = next((t for t in self._candidates() if self._in_space(t) == wanted), best)
        return best if best.purpose == "default" and self._plan.initial != "default" else recommended

    # ------------------------------------------------------------------ trials

    def _spec(self, configuration: Configuration, purpose: Purpose, label: str = "", first_seed: int = 0) -> TrialSpec:
        """Return the specification of a trial with the plan's number of repetitions."""
        return TrialSpec(configuration, purpose, self._plan.repetitions, first_seed, label=label)

    def _trial(self, configuration: Configuration, purpose: Purpose, label: str = "", first_seed: int = 0) -> Trial:
        return self._runner.run(self._spec(configuration, purpose, label, first_seed))

    def _in_space(self, trial: Trial) -> Configuration | None:
        return in_space(trial, self._space, self._decider.decisions.edits, self._whole_default)

    def _observations(self, trial: Trial) -> list[Observation]:
        """Return a finished trial's observation; none where its configuration is no point of an edited space."""
        configuration, guided = self._in_space(trial), self._plan.reduce != "none"
        objective = self._bench.application.objective
        return [observation(trial, configuration, self._space, objective, guided=guided)] if configuration else []


def measured_default(default: Trial) -> Trial:
    """Return the default's trial.  Raises TrialFailed where it has no value: nothing can be compared with it."""
    if default.state is not TrialState.COMPLETED:
        raise TrialFailed(f"the default configuration could not be measured: {default.reason}")
    return default
