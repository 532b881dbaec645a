"""The order of a study: the default first, then the search with drift baselines, confirmation, and the verdict.

A study resumes here too: what the store has is not measured again, and the optimizer is brought back by replaying
its recorded asks and tells.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from framework.bench import Bench
from framework.config.space import along_the_path
from framework.controller import Controller
from framework.critical_path.reduce import Thresholds, evidence_of, reduce
from framework.errors import FieldName, InputError, Transient, TrialFailed
from framework.model import Purpose, Study, StudyPlan, Trial, TrialState
from framework.model.documents import encode
from framework.model.events import PhaseStarted, PlanChanged, ReplayDiverged, TwinAsked, WaitStarted
from framework.objective import best_of, drift_corrected, keeps, standard_error
from framework.objective.speed import at_speed, sensitivity, typical
from framework.study.observations import EDITS, PRIOR, believed, imported, in_space, observation
from framework.study.recorded_trials import RecordedTrials
from framework.study.verdict import FinalComparison
from optimizer.analysis.backward_elimination import smaller
from optimizer.base import Optimizer
from optimizer.errors import OptimizerError, SearchExhausted
from optimizer.registry import check_options
from optimizer.registry import load as load_optimizer
from optimizer.space import Configuration, SearchSpace
from optimizer.trial import Observation

GIVE_UP_FACTOR = 3.0  # only clear losers stop early: runs of one configuration differ by up to 23 % (measurement.md)
DISTURBED_S = (30.0, 120.0, 0.0)
BACK_OFF_S = (5.0, 20.0, 60.0)
CONFIRM_SEED = 500


class Procedure:
    """Runs a study to its verdict, from wherever the store says it stands."""

    def __init__(self, bench: Bench, study: Study, space: SearchSpace) -> None:
        self._bench = bench
        self._study = study
        self._plan = study.plan
        self._space = space
        self._whole_default = space.default()
        self._controller = Controller(bench, study.id, study.plan)
        self._trials = RecordedTrials(bench.store, study.id)
        self._began = bench.clock.monotonic()

    def run(self) -> Study:
        """Default, search, verdict; returns the study as the store has it then.  Raises TrialFailed, Transient."""
        default = self._default()
        self._reduce(default)
        rows = [one for m in default.measurements if not m.invalid for one in m.services]
        self._space = along_the_path(self._space, rows)
        self._ask_model()
        self._freeze_budget(default)
        optimizer = self._optimizer()
        self._search(optimizer)
        best = self._recommended(optimizer)
        self._bench.store.set_best(self._study.id, best.number)
        proof = FinalComparison(
            self._bench.store,
            self._study.id,
            self._plan,
            self._space,
            self._bench.application.objective,
            self._trials,
            self._trial,
        )
        verdict = proof.verdict(best.configuration)
        if verdict is not None and verdict.statement == "improvement" and self._plan.minimal:
            self._shrink(proof, best)
        return self._bench.store.get(self._study.id)

    def _shrink(self, proof: FinalComparison, best: Trial) -> None:
        """Candidates that change less are found once, so that a resumed study measures the same ones."""
        plan = self._plan
        if "minimal" not in plan.extra:
            told = [one for t in self._candidates() for one in self._observations(t)]
            full = self._in_space(best) or self._space.default()
            found = [one.configuration.to_dict() for one in smaller(self._space, told, full, most=plan.minimal)]
            self._change_plan("minimal", extra={**plan.extra, "minimal": found})
        proof.shrink(best.configuration, [Configuration(one) for one in self._plan.extra["minimal"]])

    # ------------------------------------------------------------------ the default

    def _default(self) -> Trial:
        # One without a value ended its study with the reason; a study that was resumed all the same tries again.
        done = [t for t in self._trials.finished("default") if t.state is TrialState.COMPLETED]
        while True:
            default = done[-1] if done else self._first_default()
            if default.state is not TrialState.COMPLETED:
                raise TrialFailed(f"the default configuration could not be measured: {default.reason}")
            needed = _warmup_needed(default, self._bench.application.limits.unsettled)
            if needed <= self._plan.warmup_s or "warm-up" in self._plan.extra:
                return default
            # One length for the whole study, taken from runs of the default (measurement.md); lengthened once.
            seconds = float(math.ceil(needed))
            self._change_plan("warm-up", warmup_s=seconds, extra={**self._plan.extra, "warm-up": seconds})
            done = []

    def _first_default(self) -> Trial:
        """The default, tried again after a while where only the machine's disturbance kept it from a value."""
        for wait_s in DISTURBED_S:
            default = self._trial(self._space.default(), "default", label="default")
            disturbed = any(m.invalid for m in default.measurements) and not self._bench.testbed.modelled
            if default.state is not TrialState.FAILED or not disturbed:
                break
            self._bench.watch(WaitStarted("the machine is disturbed", wait_s))
            self._bench.clock.sleep(wait_s)
        return default

    def _reduce(self, default: Trial) -> None:
        """Leave only the services that the default's traces say are worth tuning; decided once, then recorded."""
        plan = self._plan
        if plan.reduce == "none":
            return
        if "reduction" not in plan.extra:
            windows = [m.services for m in default.measurements if not m.invalid]
            tunable = {service: len(names) for service, names in self._space.groups.items()}
            found = reduce(
                plan.reduce,
                evidence_of(windows),
                tunable,
                thresholds=replace(Thresholds(), **plan.thresholds),
                bottlenecks=plan.bottlenecks,
                screened=plan.screened,
            )
            self._change_plan("reduction", extra={**plan.extra, "reduction": encode(found)})
        kept = set(self._plan.extra["reduction"]["kept"])
        self._space = self._space.subset(one.name for one in self._space.parameters if one.group in kept)

    def _ask_model(self) -> None:
        """What the application's twin says of the space that is searched; asked once, then recorded."""
        plan, screen = self._plan, self._bench.screen
        if plan.prior == "none" or PRIOR in plan.extra:
            return
        if screen is None:
            raise InputError(FieldName("prior"), f" {plan.prior}: {self._bench.application.name} has no twin.json")

        def asked(done: int, total: int) -> None:
            self._bench.watch(TwinAsked(done, total))

        found = screen(self._space, plan.rate_rps, plan.seed, asked)
        default = self._space.default()
        points = [
            {"values": {k: v for k, v in one.configuration.items() if v != default[k]}, "log_ratio": one.log_ratio}
            for one in found
        ]
        self._change_plan("prior", extra={**plan.extra, PRIOR: points})

    def _freeze_budget(self, default: Trial) -> None:
        """Turn a time limit into a number of configurations, once."""
        plan = self._plan
        if plan.time_limit_s is None or self._trials.finished("search") or "frozen" in plan.extra:
            return
        per_trial = default.phases["total"]
        per_pair = (2 + len(plan.rivals)) * per_trial / plan.repetitions
        elapsed = self._bench.clock.monotonic() - self._began
        left = plan.time_limit_s - elapsed - plan.pairs * per_pair
        drift = 1 + (1 / plan.drift_every if plan.drift_every else 0)
        affordable = max(1, int(left / (per_trial * drift)))
        iterations = min(plan.iterations, affordable)
        self._change_plan("time limit", iterations=iterations, extra={**plan.extra, "frozen": iterations})

    # ------------------------------------------------------------------ the search

    def _optimizer(self) -> Optimizer:
        """A new optimizer brought to where the study stands, by replay of its recorded asks and tells."""
        plan = self._plan
        optimizer = new_optimizer(plan, self._space)
        optimizer.tell(self._imported())
        if plan.initial == "default":  # another start means a search that does not know the default
            optimizer.tell(self._observations(self._trials.finished("default")[-1]))
        diverged = False
        edited = max((one["after"] for one in plan.extra.get(EDITS, ())), default=0)
        for trial in self._trials.finished("search"):
            if not diverged and trial.ask is not None and trial.number > edited:
                [suggestion] = optimizer.ask()
                diverged = suggestion.configuration != trial.configuration
                if diverged:
                    self._bench.store.add_event(self._study.id, ReplayDiverged(trial.number))
            optimizer.tell(self._observations(trial))
        return optimizer

    def _imported(self) -> list[Observation]:
        default = self._trials.finished("default")[-1].value
        return imported(self._plan, self._space, default) if default is not None and default > 0 else []

    def _try_imported(self, optimizer: Optimizer) -> None:
        """Measure the best result from elsewhere first: only what was measured here can be chosen."""
        known = [(one.value, one.configuration) for one in self._imported() if one.value is not None]
        default = self._trials.finished("default")[-1].value
        value, configuration = min(known, key=lambda one: one[0], default=(math.inf, None))
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
            if self._target_reached():
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
            trial = self._trial(
                suggestion.configuration, "search", ask=suggestion.ask, give_up_above=give_up, ask_s=ask_s
            )
            self._bench.watch(PhaseStarted("tell"))
            began = self._bench.clock.monotonic()
            optimizer.tell(self._observations(trial))
            tell_s = self._bench.clock.monotonic() - began
            self._bench.store.annotate_trial(replace(trial, phases={**trial.phases, "tell": tell_s}))

    def _drift_places(self) -> frozenset[int]:
        """Before which search trials the default is measured again: once per block, at a random place in it."""
        every = self._plan.drift_every
        if not every:
            return frozenset()
        rng = np.random.default_rng([self._plan.seed, 7])
        blocks = range(0, self._plan.iterations - every + 1, every)
        return frozenset(int(block + rng.integers(1, every + 1)) for block in blocks)

    def _baseline_since(self, index: int) -> bool:
        """Whether the drift baseline that precedes search trial ``index`` is already there (a resumed study)."""
        searched = 0
        for trial in self._trials.all():
            searched += trial.purpose == "search" and trial.state is not TrialState.ABORTED
            if searched == index and trial.purpose == "drift" and trial.state is not TrialState.ABORTED:
                return True
        return False

    def _target_reached(self) -> bool:
        """Whether the incumbent is below the target and a fresh measurement confirms it."""
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
        """The trial with the smallest drift-corrected value that keeps the limits; the default is among them."""
        found = best_of(self._candidates(), self._bench.application.objective)
        if found is None:
            raise TrialFailed("no trial has a value")  # the default has one, or the study would have ended
        return found

    def _candidates(self) -> list[Trial]:
        """What may be chosen: trials of the default and of the search with a value, of the space as it is now."""
        return [
            t for t in self._trials.valued() if t.purpose in ("default", "search") and self._in_space(t) is not None
        ]

    def _recommended(self, optimizer: Optimizer) -> Trial:
        """The measured configuration that the optimizer recommends, by its model of the noise where it has one.

        The one that measured best where the recommendation was not measured here (a result from elsewhere), or where
        the optimizer does not know the default and the default measured better.
        """
        wanted, best = optimizer.recommend(), self._best()
        found = next((t for t in self._candidates() if self._in_space(t) == wanted), best)
        return best if best.purpose == "default" and self._plan.initial != "default" else found

    # ------------------------------------------------------------------ trials

    def _trial(self, configuration: Configuration, purpose: Purpose, **options: Any) -> Trial:
        """Measure and record, retrying with back-off while the testbed is away."""
        options.setdefault("repetitions", self._plan.repetitions)
        for wait_s in BACK_OFF_S:
            try:
                return self._trials.add(
                    self._controller.run(configuration, purpose, complete=self._complete, **options)
                )
            except Transient as error:
                self._bench.watch(WaitStarted(str(error), wait_s))
                self._bench.clock.sleep(wait_s)
        return self._trials.add(self._controller.run(configuration, purpose, complete=self._complete, **options))

    def _complete(self, trial: Trial) -> Trial:
        """The trial with what the optimizer will be told of it: at the machine's speed in the first trial."""
        valued = self._trials.valued()
        found = sensitivity([*valued, trial], self._bench.application.objective)
        reference = typical([*valued, trial])
        this, others = at_speed(trial, found, reference), [at_speed(one, found, reference) for one in valued]
        baselines = [one for one in others if one.purpose in ("default", "drift")]
        told = drift_corrected(this, baselines) if trial.purpose == "search" else this.value
        return replace(trial, told_value=told, standard_error=standard_error(this, others))

    def _in_space(self, trial: Trial) -> Configuration | None:
        return in_space(trial, self._space, self._plan, self._whole_default)

    def _observations(self, trial: Trial) -> list[Observation]:
        """What a finished trial tells; nothing where an edit of the space left its configuration out."""
        configuration, guided = self._in_space(trial), self._plan.reduce != "none"
        objective = self._bench.application.objective
        return [observation(trial, configuration, self._space, objective, guided=guided)] if configuration else []

    def _change_plan(self, why: str, **changes: Any) -> None:
        self._plan = replace(self._plan, **changes)
        self._study = replace(self._study, plan=self._plan)
        self._controller = Controller(self._bench, self._study.id, self._plan)
        self._bench.store.set_plan(self._study.id, self._plan)
        changed = PlanChanged(why, changes)
        self._bench.store.add_event(self._study.id, changed)
        self._bench.watch(changed)


def new_optimizer(plan: StudyPlan, space: SearchSpace) -> Optimizer:
    """The plan's optimizer, new.  Raises InputError on an unknown name or option, with what is allowed."""
    try:
        kind = load_optimizer(plan.optimizer)
        check_options(kind, plan.optimizer_options)
        start = _start(plan.initial, plan.extra, space)
        modelled = believed(plan, space)
        if modelled and not kind.uses_simulator_prior:
            start, modelled = min(modelled, key=lambda one: one.log_ratio).configuration, []
        budget = max(1, plan.iterations)  # without a search it is never asked
        known: dict[str, Any] = {"modelled": modelled} if modelled else {}
        return kind(space, seed=plan.seed, budget=budget, start=start, **known, **plan.optimizer_options)
    except OptimizerError as error:
        raise InputError(str(error)) from error


def _start(initial: str, extra: Mapping[str, Any], space: SearchSpace) -> Configuration | None:
    """Where the optimizer starts: the default, a random design (None), or a given configuration."""
    if initial == "default":
        return space.default()
    if initial == "random":
        return None
    known = {name: value for name, value in extra["initial"].items() if name in space}
    return space.validate({**space.default(), **known})


def _warmup_needed(default: Trial, most_unsettled: float) -> float:
    """Median over the default's repetitions of the truncation that MSER chooses, in seconds.

    MSER is a noisy estimate on one run, so one unsettled repetition says nothing.  Raises TrialFailed when there are
    several and more than this share of them had not settled by the middle of warm-up and window together.
    """
    valid = [m.warmup_needed_s for m in default.measurements if not m.invalid]
    settled = [needed for needed in valid if needed is not None]
    if len(valid) > 1 and len(settled) < (1 - most_unsettled) * len(valid):
        raise TrialFailed(
            "the default has not settled by the middle of warm-up and window; use a longer --warm-up or --duration"
        )
    return statistics.median_low(settled) if settled else 0.0
