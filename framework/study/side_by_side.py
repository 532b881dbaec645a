"""A study on several testbeds: its trials run side by side, one on each testbed.

Every comparison stays within a testbed.  Each measures the default first, and again now and then; a trial's value is
its ratio to its own testbed's default, on the scale of the study's first default.  The optimizer is asked while other
trials are pending.  A trial records the asks whose results were not known when it was asked for (``pending_asks``);
before each ask, all results that are there are told in the order of the trials' numbers.  So a replay asks and tells
exactly alike, whatever the order in which trials ended.  docs/adr/0037-trials-side-by-side.md says why.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from framework.bench import Bench
from framework.errors import TrialFailed
from framework.model import Purpose, Study, Trial
from framework.model.events import PhaseStarted, ReplayDiverged, WaitStarted
from framework.model.study import TrialSpec
from framework.objective import constraints, rank, trial_value
from framework.study.crew import Crew, Threads
from framework.study.deciding import warmup_needed
from framework.study.new_optimizer import new_optimizer
from framework.study.procedure import CONFIRM_SEED, DISTURBED_S, GIVE_UP_FACTOR, Procedure, measured_default
from framework.study.recorded_trials import FINISHED
from framework.study.team import Assigned, Groups, Team, Work
from optimizer.base import Optimizer
from optimizer.errors import SearchExhausted
from optimizer.space import Configuration, SearchSpace

FINALISTS = 3  # configurations that further testbeds measure after the search
FURTHER = 3  # testbeds, at most, that measure each of them
BASELINES = ("default", "drift")


class SideBySide(Procedure):
    """Runs a study on the ``team`` of its bench.  ``crew``: None for a thread for each of them."""

    def __init__(self, bench: Bench, study: Study, space: SearchSpace, crew: Crew | None = None) -> None:
        super().__init__(bench, study, space)
        self._team = Team(bench, study.id, study.effective_plan, self._trials, crew or Threads())
        self._pending: list[TrialSpec] = []  # asked for and not measured, in a resumed study
        self._told: set[int] = set()  # asks whose results the optimizer knows

    # ------------------------------------------------------------------ the defaults

    def _default(self) -> Trial:
        default = self._baselines(again=False)
        unsettled = self._bench.application.limits.unsettled
        latest = [self._of(testbed, BASELINES)[-1] for testbed in self._team.testbeds]
        slowest = max(latest, key=lambda trial: warmup_needed(trial, unsettled))
        if self._decider.warmup(slowest):
            self._team.follow(self._plan)
            default = self._baselines(again=True)
        return default

    def _baselines(self, *, again: bool) -> Trial:
        """Measure the default on each testbed that lacks it, or on all ``again``; return that of the reference.

        A testbed that cannot measure it is lost.  Raises TrialFailed where the reference cannot.
        """
        since = self._trials.all()[-1].number if again else 0
        lacking = self._lacking(since)
        for wait_s in DISTURBED_S:
            if not lacking:
                break
            reference, before = self._reference(), self._team.testbeds
            self._team.work(Assigned({name: [self._baseline(name, reference)] for name in lacking}))
            lacking = self._lacking(since)
            latest = [[t for t in self._trials.all() if t.testbed == name][-1] for name in lacking]
            if before == self._team.testbeds:
                if self._bench.testbed.modelled or not any(m.invalid for trial in latest for m in trial.measurements):
                    break
                self._bench.watch(WaitStarted("the machine is disturbed", wait_s))
                self._bench.clock.sleep(wait_s)
        if not self._trials.finished("default"):
            raise TrialFailed("the default configuration was measured on no testbed")
        default = measured_default(self._latest_default())
        if set(lacking) >= set(self._team.testbeds):
            raise TrialFailed("the default configuration has no value on any testbed any more")
        for name in lacking:
            self._team.lose(name, "the default has no value there")
        return default

    def _latest_default(self) -> Trial:
        """Return the latest default of the reference that has a value; the latest one where none has."""
        defaults = self._trials.finished("default")
        return next((trial for trial in reversed(defaults) if trial.value is not None), defaults[-1])

    def _lacking(self, since: int) -> list[str]:
        """Return the testbeds without a baseline after trial ``since``; the first too, where there is no default."""
        there = self._team.testbeds
        first = () if any(t.purpose == "default" for t in self._trials.valued()) else there[:1]
        return [name for name in there if name in first or not any(t.number > since for t in self._of(name, BASELINES))]

    def _baseline(self, testbed: str, reference: str) -> TrialSpec:
        return self._spec(self._space.default(), "default" if testbed == reference else "drift", label="default")

    def _reference(self) -> str:
        """Return the testbed of the study's first default; until there is one, the first that is there."""
        defaults = [t for t in self._trials.valued() if t.purpose == "default"]
        return defaults[0].testbed if defaults else self._team.testbeds[0]

    def _of(self, testbed: str, purposes: Sequence[str]) -> list[Trial]:
        """Return a testbed's trials with a value of some purposes, oldest first."""
        return [t for t in self._trials.valued() if t.testbed == testbed and t.purpose in purposes]

    # ------------------------------------------------------------------ the search

    def _optimizer(self) -> Optimizer:
        """Return a new optimizer after a replay; keep what was asked for and has no result yet."""
        optimizer = new_optimizer(self._plan, self._decider.decisions, self._space)
        optimizer.tell(self._imported())
        if self._plan.initial == "default":
            optimizer.tell(self._observations(self._latest_default()))
        edited = self._edited()
        searched = [t for t in self._trials.all() if t.purpose == "search"]
        for trial in searched:
            if trial.state in FINISHED and (trial.ask is None or trial.number <= edited):
                optimizer.tell(self._observations(trial))
        asked: dict[int, Trial] = {}  # the first trial of each ask, in the order of the asks
        for trial in searched:
            if trial.ask is not None and trial.number > edited:
                asked.setdefault(trial.ask, trial)
        self._told = set()
        diverged = False
        for ask, trial in sorted(asked.items()):
            if diverged:
                break
            self._tell(optimizer, known=set(range(ask)) - set(trial.pending_asks))
            [suggestion] = optimizer.ask()
            diverged = suggestion.ask != ask or suggestion.configuration != trial.configuration
            if diverged:
                self._bench.store.add_event(self._study_id, ReplayDiverged(trial.number))
        if diverged:
            self._tell(optimizer)
        done = {t.ask for t in searched if t.state in FINISHED}
        self._pending = [
            replace(self._spec(t.configuration, "search"), ask=ask, pending_asks=t.pending_asks)
            for ask, t in sorted(asked.items())
            if ask not in done
        ]
        return optimizer

    def _edited(self) -> int:
        """Return the number of the last trial before the space was edited; 0 where it never was."""
        return max((edit.after for edit in self._decider.decisions.edits), default=0)

    def _tell(self, optimizer: Optimizer, known: set[int] | None = None) -> None:
        """Tell the results of asks that were not told yet, in the order of the trials; of the ``known`` asks only."""
        for trial in self._trials.finished("search"):
            if trial.ask is None or trial.number <= self._edited():  # of another space: told first of all
                continue
            if trial.ask not in self._told and (known is None or trial.ask in known):
                self._told.add(trial.ask)
                optimizer.tell(self._observations(trial))

    def _search(self, optimizer: Optimizer) -> None:
        self._try_imported(optimizer)
        searching = _Search(self, optimizer)
        self._team.work(searching)
        self._bench.watch(PhaseStarted("tell"))
        self._tell(optimizer)

    def _next_ask(self, optimizer: Optimizer) -> TrialSpec | None:
        """Return the next trial of the search; None where it is over."""
        self._tell(optimizer)
        if optimizer.asks >= self._plan.iterations or self._decider.ended(
            optimizer, self._trials.all(), optimizer.asks
        ):
            return None
        self._bench.watch(PhaseStarted("ask"))
        began = self._bench.clock.monotonic()
        unknown = tuple(ask for ask in range(optimizer.asks) if ask not in self._told)
        try:
            [suggestion] = optimizer.ask()
        except SearchExhausted:
            return None
        ask_s = self._bench.clock.monotonic() - began
        wanted = self._spec(suggestion.configuration, "search")
        return replace(wanted, ask=suggestion.ask, ask_s=ask_s, pending_asks=unknown)

    def _bounded(self, spec: TrialSpec, testbed: str) -> TrialSpec:
        """Return the specification with the value, on a testbed's own scale, above which a trial is a clear loser."""
        incumbent = min((t.told_value for t in self._candidates() if t.told_value is not None), default=0.0)
        first = next(t for t in self._trials.valued() if t.purpose == "default")
        default, level = first.value, self._of(testbed, BASELINES)[0].value
        if incumbent <= 0 or not default or not level:
            return spec
        return replace(spec, give_up_above=GIVE_UP_FACTOR * incumbent * level / default)

    def _drift_is_due(self, testbed: str) -> bool:
        """Return whether a testbed measures the default again now: at a random place in each block of its trials."""
        every = self._plan.drift_every
        own = [t for t in self._trials.all() if t.testbed == testbed and t.state in FINISHED]
        done = sum(t.purpose == "search" for t in own)
        if not every or not own or own[-1].purpose != "search":
            return False
        rng = np.random.default_rng([self._plan.seed, 7, zlib.crc32(testbed.encode()), (done - 1) // every])
        return (done - 1) % every == int(rng.integers(0, every))

    # ------------------------------------------------------------------ the finalists

    def _recommended(self, optimizer: Optimizer) -> Trial:
        """Return the best of the finalists by what all testbeds say; the default where none of them is better."""
        best = super()._recommended(optimizer)
        default = self._latest_default()
        if best.purpose == "default":
            return best
        objective = self._bench.application.objective
        ranked = sorted(
            (t for t in self._candidates() if t.purpose == "search"), key=lambda trial: rank(trial, objective)
        )
        finalists: dict[Configuration, Trial] = {}
        for trial in (best, *ranked):
            if len(finalists) < FINALISTS:
                finalists.setdefault(trial.configuration, trial)
        self._measure_finalists(list(finalists.values()))
        chosen = min((self._over_testbeds(trial), -trial.number, trial) for trial in finalists.values())[-1]
        return chosen if self._over_testbeds(chosen) <= self._over_testbeds(default) else default

    def _measure_finalists(self, finalists: Sequence[Trial]) -> None:
        wanted: dict[str, list[TrialSpec]] = {}
        for trial in finalists:
            known = [t.testbed for t in self._confirmed_on(trial)]
            there = self._team.testbeds
            first = there.index(trial.testbed) + 1 if trial.testbed in there else 0
            others = [name for name in (*there[first:], *there[:first]) if name not in (trial.testbed, *known)]
            for name in others[: max(0, FURTHER - len(known))]:
                spec = self._spec(trial.configuration, "confirm", label="finalist", first_seed=CONFIRM_SEED)
                wanted.setdefault(name, []).append(spec)
        self._team.work(Assigned(wanted))

    def _confirmed_on(self, trial: Trial) -> list[Trial]:
        return [t for t in self._trials.finished("confirm") if t.configuration == trial.configuration]

    def _over_testbeds(self, trial: Trial) -> tuple[float, float]:
        """Return the rank of a configuration: its largest violation of the limits, then its mean over the testbeds.

        One that could not be measured on some testbed is behind all others.
        """
        runs = [trial, *(self._confirmed_on(trial) if trial.purpose == "search" else ())]
        values = [run.told_value for run in runs if run.told_value is not None]
        if len(values) < len(runs):
            return math.inf, math.inf
        objective = self._bench.application.objective
        violation = max(sum(max(0.0, excess) for excess in constraints(run, objective).values()) for run in runs)
        return violation, trial_value(values)

    # ------------------------------------------------------------------ the verdict

    def _measure_groups(self, groups: Sequence[Sequence[TrialSpec]]) -> None:
        """Run the verdict's groups side by side, each of them on one testbed."""
        if not groups:
            return
        purpose = groups[0][0].purpose
        began = {t.pair: t.testbed for t in self._trials.finished(purpose)}

        def left(group: Work, testbed: str) -> Work:
            done = {t.label for t in self._trials.finished(purpose) if t.pair == group[0].pair and t.testbed == testbed}
            return [spec for spec in group if spec.label not in done]

        whole = [
            group for group in groups
            if (place := began.get(group[0].pair)) is None or left(group, place)
        ]  # fmt: skip
        tasks = Groups(whole, [began.get(group[0].pair) for group in whole], left)
        self._team.work(tasks.known(self._team.testbeds))

    # ------------------------------------------------------------------ single trials

    def _trial(self, configuration: Configuration, purpose: Purpose, label: str = "", first_seed: int = 0) -> Trial:
        """Run a single trial on the first testbed that is there; where that is lost, on the next."""
        spec = self._spec(configuration, purpose, label, first_seed)
        before = len(self._trials.all())
        while True:
            self._team.work(Assigned({self._team.testbeds[0]: [spec]}))
            if len(self._trials.all()) > before:
                return self._trials.all()[-1]


class _Search:
    """Tasks of a search: what a lost testbed or an interrupted process left, baselines that are due, and new asks."""

    def __init__(self, study: SideBySide, optimizer: Optimizer) -> None:
        self._study, self._optimizer = study, optimizer
        self._is_over = False

    def take(self, testbed: str) -> Work:
        study = self._study
        if study._pending:
            return [study._bounded(study._pending.pop(0), testbed)]
        if self._is_over or self._optimizer.asks >= study._plan.iterations:
            return ()
        if study._drift_is_due(testbed):
            return [study._spec(study._space.default(), "drift", label="default")]
        spec = study._next_ask(self._optimizer)
        self._is_over = spec is None
        return () if spec is None else [study._bounded(spec, testbed)]

    def back(self, testbed: str, work: Work) -> None:
        self._study._pending[:0] = [spec for spec in work if spec.purpose == "search"]


def procedure_of(bench: Bench, study: Study, space: SearchSpace) -> Procedure:
    """Return the procedure of a study: on one testbed, or side by side on several."""
    return SideBySide(bench, study, space) if study.plan.testbeds else Procedure(bench, study, space)
