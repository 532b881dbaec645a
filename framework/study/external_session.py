"""A session of one study that is measured elsewhere: its optimizer, its lease, and its clients' asks and tells.

Asks and tells that arrive at the same time are one batch: one transaction for all tells, one for all asks.
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

VALUE = "value"  # the quantity that such a study minimises
NO_RANK = (math.inf, math.inf)
EXPIRY_CHECK_S = 1.0  # at most so long after its lease expired, a trial is offered again


@dataclass(frozen=True, slots=True)
class TrialResult:
    """A client's result of a trial: a value, or the reason why there is none.

    ``error``: the value's standard error, in its unit.  ``quantities``: those that the study's limits and further
    objectives need.  ``costs``: group of parameters -> its cost (a service's CPU time per request), where it is known.
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
    """A client's request for ``count`` trials, leased to it for ``seconds``."""

    count: int
    client: str
    seconds: float


def objective_of(plan: StudyPlan) -> Objective:
    """Return the objective of such a study: its value, limits and further quantities.  Raises InputError."""
    return Objective((Term(VALUE),), tuple(own_constraint(text) for text in plan.subject_to), plan.also)


class ExternalSession:
    """Answers asks and tells of one study's clients, from several threads."""

    def __init__(self, study: Study, store: StudyStore, offers: OfferStore, lease: Lease, clock: Clock) -> None:
        self._study = study  # as it was created: its plan does not change
        self._space, self._objective = SearchSpace.from_dict(study.space), objective_of(study.plan)
        self._groups = frozenset(self._space.groups)
        self._store, self._offers, self._lease, self._clock = store, offers, lease, clock
        self._commit: GroupCommit[AskRequest | Sequence[TrialResult], Sequence[Trial]] = GroupCommit(self._answer_batch)
        self._cached: Optimizer | None = None
        self._unfinished: dict[int, Trial] = {}  # trials that clients measure, while this process has the lease
        self._renewed = -math.inf  # when the lease was renewed, on the monotonic clock
        self._next_check = -math.inf  # when the store is asked for expired leases, on the monotonic clock
        self._expired = False
        self._lowest = NO_RANK

    @property
    def weight(self) -> int:
        """The optimizer's share of the memory: its parameters, and as many for each hundred asks."""
        cached = self._cached
        return len(self._space) * (1 + (cached.asks // 100 if cached is not None else 0))

    def ask(self, request: AskRequest) -> Sequence[Trial]:
        """Return trials: first those whose leases expired, then new ones; fewer when space or budget is exhausted."""
        return self._commit(request)

    def tell(self, results: Sequence[TrialResult]) -> None:
        """Record all of these results, or none.  Raises NotFound, IllegalTransition, InputError."""
        self._commit(results)

    def running(self) -> bool:
        """Return whether there are trials whose leases expired.

        Raises IllegalTransition where the study does not run, NotFound.
        """
        state, expired = self._offers.status(self._study.id)
        if state is not StudyState.RUNNING:
            raise IllegalTransition(f"study {self._study.id} is {state}")
        return expired

    # ------------------------------------------------------------------ one batch

    def _answer_batch(
        self, batch: Sequence[AskRequest | Sequence[TrialResult]]
    ) -> Sequence[Sequence[Trial] | Exception]:
        if self._clock.monotonic() >= self._next_check:  # not at every ask: every write checks the state by itself
            self._expired = self.running()
            self._next_check = self._clock.monotonic() + EXPIRY_CHECK_S
        try:
            optimizer = self._optimizer()
            told = self._tell_all(optimizer, [item for item in batch if not isinstance(item, AskRequest)])
            asked = self._ask_all(optimizer, [item for item in batch if isinstance(item, AskRequest)])
        except BaseException:
            self._cached = None  # it may be ahead of the records
            raise
        return [next(asked) if isinstance(item, AskRequest) else next(told) for item in batch]

    def _tell_all(
        self, optimizer: Optimizer, tells: Sequence[Sequence[TrialResult]]
    ) -> Iterator[Sequence[Trial] | Exception]:
        known = self._recorded({result.trial for results in tells for result in results})
        answers: list[Sequence[Trial] | Exception] = []
        ended: list[Trial] = []
        for results in tells:
            try:
                new = self._newly_ended(known, results)
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
            for trial in ended:  # one by one, as a replay tells them
                self._unfinished.pop(trial.number, None)
                optimizer.tell([self._observation(trial)])
        return iter(answers)

    def _recorded(self, numbers: Set[int]) -> dict[int, Trial]:
        """Return the trials of these numbers that exist."""
        known = {number: self._unfinished[number] for number in numbers & self._unfinished.keys()}
        others = sorted(numbers - known.keys())
        if others:
            known |= {trial.number: trial for trial in self._store.numbered(self._study.id, others)}
        return known

    def _newly_ended(self, known: Mapping[int, Trial], results: Sequence[TrialResult]) -> Sequence[Trial]:
        """Return the trials that end with these results; not those that ended earlier with the same result."""
        new: dict[int, Trial] = {}
        for result in results:
            before = new.get(result.trial) or known.get(result.trial)
            if before is None:
                raise NotFound(f"study {self._study.id} has no trial {result.trial}")
            trial = _finished(before, result)
            self._observation(trial)
            if before.state is TrialState.RUNNING:
                new[result.trial] = trial
            elif _outcome(before) != _outcome(trial):
                raise IllegalTransition(f"trial {before.number} was told before: {before.state}, {before.value}")
        return list(new.values())

    def _ask_all(self, optimizer: Optimizer, requests: Sequence[AskRequest]) -> Iterator[Sequence[Trial]]:
        study = self._study
        answers: list[list[Trial]] = []
        wanted: list[Trial] = []
        offered: list[Offer] = []
        for request in requests:
            client, count, lease_s = request.client, request.count, request.seconds
            again = self._offers.take_over(study.id, client, count, lease_s) if self._expired else []
            self._expired = len(again) == count
            self._next_check = min(self._next_check, self._clock.monotonic() + lease_s)
            answers.append([trial for _, trial in sorted(self._recorded(set(again)).items())])
            expires_ns = self._clock.now_ns() + int(lease_s * 1e9)
            for _ in range(count - len(again)):
                if optimizer.asks >= study.plan.iterations:
                    break
                try:
                    [suggestion] = optimizer.ask()
                except SearchExhausted:
                    break
                configuration, ask = suggestion.configuration, suggestion.ask
                wanted.append(Trial(study.id, 0, "search", configuration, TrialState.RUNNING, ask=ask, label=client))
                offered.append(Offer(client, expires_ns))
                answers[-1].append(wanted[-1])
        begun = self._store.begin_trials(wanted, offered) if wanted else ()
        self._unfinished |= {trial.number: trial for trial in begun}
        new = iter(begun)
        return iter([[trial if trial.number else next(new) for trial in trials] for trials in answers])

    # ------------------------------------------------------------------ the optimizer

    def _optimizer(self) -> Optimizer:
        """Return the optimizer in the study's current state; only the process with the lease has it."""
        now = self._clock.monotonic()
        since = now - self._renewed
        if since >= LEASE_S / 4:  # not at every ask: a renewal is a write
            self._lease.take(self._study.id)
            self._renewed = now
        if since >= LEASE_S or self._cached is None:  # another process may have had the lease in between
            self._cached = self._replayed()
        return self._cached

    def _replayed(self) -> Optimizer:
        """Replay the recorded asks and tells; where a suggestion differs (another library version), only the tells."""
        study = self._study
        trials = {trial.number: trial for trial in self._store.trials(study.id)}
        valued = [trial for trial in trials.values() if trial.value is not None]
        self._lowest = min((rank(trial, self._objective) for trial in valued), default=NO_RANK)
        self._unfinished = {number: trial for number, trial in trials.items() if trial.state is TrialState.RUNNING}
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
                finished = [trial for trial in trials.values() if trial.state is not TrialState.RUNNING]
                optimizer.tell([self._observation(trial) for trial in finished])
                return optimizer
        return optimizer

    def _observation(self, trial: Trial) -> Observation:
        """Return a trial's observation.  Raises InputError where the result is incomplete or contradictory."""
        if trial.value is not None and (missing := set(self._objective.secondary_quantities) - trial.quantities.keys()):
            raise InputError(f"trial {trial.number}: quantities: missing: {', '.join(sorted(missing))}")
        if unknown := trial.costs.keys() - self._groups:
            named = f"no group {', '.join(sorted(unknown))}; known: {', '.join(sorted(self._groups))}"
            raise InputError(f"trial {trial.number}: costs: {named}")
        try:
            return observation(trial, trial.configuration, self._space, self._objective, guided=False)
        except OptimizerError as problem:
            raise InputError(f"trial {trial.number}: {problem}") from problem


def _outcome(trial: Trial) -> tuple[object, ...]:
    return trial.state, trial.value, trial.quantities, trial.costs


def _finished(trial: Trial, result: TrialResult) -> Trial:
    relative = result.error / abs(result.value) if result.error is not None and result.value else None
    return replace(
        trial,
        state=result.state,
        value=result.value,
        told_value=result.value,
        standard_error=relative,
        reason=result.reason,
        quantities=dict(result.quantities),
        costs=dict(result.costs),
    )
