"""One study that is measured elsewhere, in this process: its optimizer, its lease, and who waits for an answer.

What clients ask and tell at the same time is answered together: one transaction for all tells, one for all asks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from framework.config.outcomes import own_constraint
from framework.errors import IllegalTransition, InputError, NotFound, TailorError
from framework.model import Objective, Offer, Study, StudyPlan, StudyState, Term, Trial, TrialState
from framework.model.events import ReplayDiverged, TrialFinished, TrialStarted
from framework.objective import rank
from framework.ports.clock import Clock
from framework.ports.store import OfferStore, StudyStore
from framework.study.batching import GroupCommit
from framework.study.lease import LEASE_S, Lease
from framework.study.new_optimizer import new_optimizer
from framework.study.observations import observation
from optimizer.base import Optimizer, SearchExhausted
from optimizer.errors import OptimizerError
from optimizer.space import SearchSpace
from optimizer.trial import Observation

VALUE = "value"  # what the objective of such a study is called
NO_RANK = (math.inf, math.inf)
LOOK_S = 1.0  # no longer than this after its lease ran out a trial is offered again


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What a client found: a value, or why there is none.

    ``error``: its standard error, in the same unit.  ``quantities``: what the study's limits and further objectives
    need.  ``costs``: what each group of parameters took (a service's CPU time per request), where that is known.
    """

    trial: int
    value: float | None = None
    error: float | None = None
    state: TrialState = TrialState.COMPLETED
    reason: str = ""
    quantities: Mapping[str, float] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AskRequest:
    """So many trials to measure, for this client and for so long."""

    count: int
    client: str
    seconds: float


def objective_of(plan: StudyPlan) -> Objective:
    """The value, the limits that the best has to keep, and what else is wanted low.  Raises InputError."""
    return Objective((Term(VALUE),), tuple(own_constraint(text) for text in plan.subject_to), plan.also)


class ExternalSession:
    """Answers the clients of one study."""

    def __init__(self, study: Study, store: StudyStore, offers: OfferStore, lease: Lease, clock: Clock) -> None:
        self._study = study  # as it was begun: what is asked of it here does not change
        self._space, self._objective = SearchSpace.from_dict(study.space), objective_of(study.plan)
        self._groups = frozenset(self._space.groups)
        self._store, self._offers, self._lease, self._clock = store, offers, lease, clock
        self._together: GroupCommit[AskRequest | Sequence[TrialResult], Sequence[Trial]] = GroupCommit(self._answers)
        self._kept: Optimizer | None = None
        self._out: dict[int, Trial] = {}  # what clients measure, while this process has the lease
        self._renewed = -math.inf  # when the lease was, on the monotonic clock
        self._look_at = -math.inf  # when the store is asked again, on the monotonic clock, whether leases ran out
        self._lapsed = False
        self._lowest = NO_RANK

    @property
    def weight(self) -> int:
        """What its optimizer takes of the memory: parameters, again for each hundred configurations that it knows."""
        kept = self._kept
        return len(self._space) * (1 + (kept.asks // 100 if kept is not None else 0))

    def ask(self, wish: AskRequest) -> Sequence[Trial]:
        """First trials whose clients vanished, then new ones; fewer when the space or the budget ends."""
        return self._together(wish)

    def tell(self, found: Sequence[TrialResult]) -> None:
        """All of these results, or none.  Raises NotFound, IllegalTransition, InputError."""
        self._together(found)

    def running(self) -> bool:
        """Whether trials wait whose clients vanished.

        Raises IllegalTransition where the study does not run, NotFound.
        """
        state, lapsed = self._offers.stand(self._study.id)
        if state is not StudyState.RUNNING:
            raise IllegalTransition(f"study {self._study.id} is {state}")
        return lapsed

    # ------------------------------------------------------------------ what came together

    def _answers(self, batch: Sequence[AskRequest | Sequence[TrialResult]]) -> Sequence[Sequence[Trial] | Exception]:
        if self._clock.monotonic() >= self._look_at:  # not at every ask: what is written is checked by itself
            self._lapsed = self.running()
            self._look_at = self._clock.monotonic() + LOOK_S
        try:
            optimizer = self._optimizer()
            told = self._told(optimizer, [one for one in batch if not isinstance(one, AskRequest)])
            asked = self._asked(optimizer, [one for one in batch if isinstance(one, AskRequest)])
        except BaseException:
            self._kept = None  # it may be ahead of what is recorded
            raise
        return [next(asked) if isinstance(one, AskRequest) else next(told) for one in batch]

    def _told(
        self, optimizer: Optimizer, tells: Sequence[Sequence[TrialResult]]
    ) -> Iterator[Sequence[Trial] | Exception]:
        known = self._known({one.trial for found in tells for one in found})
        answers: list[Sequence[Trial] | Exception] = []
        ended: list[Trial] = []
        for found in tells:
            try:
                new = self._new(known, found)
            except TailorError as error:
                answers.append(error)
                continue
            known |= {trial.number: trial for trial in new}
            ended += new
            answers.append([])
        if ended:
            ranks = ((rank(trial, self._objective), trial.number) for trial in ended if trial.value is not None)
            lowest, number = min(ranks, default=(NO_RANK, 0))
            self._store.finish_trials(ended, best=number if lowest < self._lowest else None, offered=True)
            self._lowest = min(self._lowest, lowest)
            for trial in ended:  # one by one, as they are replayed
                self._out.pop(trial.number, None)
                optimizer.tell([self._observation(trial)])
        return iter(answers)

    def _known(self, numbers: Set[int]) -> dict[int, Trial]:
        """Those of these trials that there are."""
        known = {number: self._out[number] for number in numbers & self._out.keys()}
        others = sorted(numbers - known.keys())
        if others:
            known |= {trial.number: trial for trial in self._store.numbered(self._study.id, others)}
        return known

    def _new(self, known: Mapping[int, Trial], found: Sequence[TrialResult]) -> Sequence[Trial]:
        """The trials that end with these results; not those that had ended so before."""
        new: dict[int, Trial] = {}
        for one in found:
            before = new.get(one.trial) or known.get(one.trial)
            if before is None:
                raise NotFound(f"study {self._study.id} has no trial {one.trial}")
            trial = _finished(before, one)
            self._observation(trial)
            if before.state is TrialState.RUNNING:
                new[one.trial] = trial
            elif _said(before) != _said(trial):
                raise IllegalTransition(f"trial {before.number} was told before: {before.state}, {before.value}")
        return list(new.values())

    def _asked(self, optimizer: Optimizer, wishes: Sequence[AskRequest]) -> Iterator[Sequence[Trial]]:
        study = self._study
        answers: list[list[Trial]] = []
        wanted: list[Trial] = []
        offered: list[Offer] = []
        for wish in wishes:
            again = self._offers.take_over(study.id, wish.client, wish.count, wish.seconds) if self._lapsed else []
            self._lapsed = len(again) == wish.count
            self._look_at = min(self._look_at, self._clock.monotonic() + wish.seconds)
            answers.append([trial for _, trial in sorted(self._known(set(again)).items())])
            expires_ns = self._clock.now_ns() + int(wish.seconds * 1e9)
            for _ in range(wish.count - len(again)):
                if optimizer.asks >= study.plan.iterations:
                    break
                try:
                    [found] = optimizer.ask()
                except SearchExhausted:
                    break
                wanted.append(
                    Trial(
                        study.id, 0, "search", found.configuration, TrialState.RUNNING, ask=found.ask, label=wish.client
                    )
                )
                offered.append(Offer(wish.client, expires_ns))
                answers[-1].append(wanted[-1])
        begun = self._store.begin_trials(wanted, offered) if wanted else ()
        self._out |= {trial.number: trial for trial in begun}
        new = iter(begun)
        return iter([[one if one.number else next(new) for one in trials] for trials in answers])

    # ------------------------------------------------------------------ the optimizer

    def _optimizer(self) -> Optimizer:
        """The optimizer where the study stands; one process at a time has it."""
        now = self._clock.monotonic()
        since = now - self._renewed
        if since >= LEASE_S / 4:  # not at every ask: a renewal is a write
            self._lease.take(self._study.id)
            self._renewed = now
        if since >= LEASE_S or self._kept is None:  # another process may have had it in between
            self._kept = self._replayed()
        return self._kept

    def _replayed(self) -> Optimizer:
        """By the recorded order of asks and tells; where another library asks otherwise, by what was told alone."""
        study = self._study
        trials = {trial.number: trial for trial in self._store.trials(study.id)}
        valued = [trial for trial in trials.values() if trial.value is not None]
        self._lowest = min((rank(trial, self._objective) for trial in valued), default=NO_RANK)
        self._out = {number: trial for number, trial in trials.items() if trial.state is TrialState.RUNNING}
        optimizer = new_optimizer(study.plan, study.decisions, self._space)
        for event in self._store.events(study.id):
            trial = trials.get(event.get("number", -1))
            if trial is None or event["kind"] not in (TrialStarted.kind, TrialFinished.kind):
                continue
            if event["kind"] == TrialFinished.kind:
                optimizer.tell([self._observation(trial)])
                continue
            [suggestion] = optimizer.ask()
            if suggestion.configuration != trial.configuration:
                self._store.add_event(study.id, ReplayDiverged(trial.number))
                optimizer = new_optimizer(study.plan, study.decisions, self._space)
                finished = [one for one in trials.values() if one.state is not TrialState.RUNNING]
                optimizer.tell([self._observation(one) for one in finished])
                return optimizer
        return optimizer

    def _observation(self, trial: Trial) -> Observation:
        """Raises InputError where what was told does not go together."""
        if trial.value is not None and (missing := set(self._objective.beside) - trial.quantities.keys()):
            raise InputError(f"trial {trial.number}: quantities: missing: {', '.join(sorted(missing))}")
        if unknown := trial.costs.keys() - self._groups:
            named = f"no group {', '.join(sorted(unknown))}; known: {', '.join(sorted(self._groups))}"
            raise InputError(f"trial {trial.number}: costs: {named}")
        try:
            return observation(trial, trial.configuration, self._space, self._objective, guided=False)
        except OptimizerError as problem:
            raise InputError(f"trial {trial.number}: {problem}") from problem


def _said(trial: Trial) -> tuple[object, ...]:
    return trial.state, trial.value, trial.quantities, trial.costs


def _finished(trial: Trial, told: TrialResult) -> Trial:
    relative = told.error / abs(told.value) if told.error is not None and told.value else None
    return replace(
        trial,
        state=told.state,
        value=told.value,
        told_value=told.value,
        standard_error=relative,
        reason=told.reason,
        quantities=dict(told.quantities),
        costs=dict(told.costs),
    )
