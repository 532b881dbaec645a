"""Studies that are measured elsewhere: a team asks for configurations and tells what it found, in its own way.

What is asked is a trial with a lease.  A client that vanishes lets it run out, and its trial is offered again.  The
order of asks and tells is in the store's events, so that another process brings the optimizer to the same place by
replay.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from framework.errors import IllegalTransition, InputError, NotFound
from framework.lease import LEASE_S, Lease
from framework.model import EXTERNAL, Machine, Study, StudyPlan, StudyState, Trial, TrialState
from framework.ports import Clock, OfferStore, StudyStore
from framework.procedure import new_optimizer
from optimizer.base import Optimizer, SearchExhausted
from optimizer.errors import OptimizerError
from optimizer.space import SearchSpace
from optimizer.trial import Observation, ObservationState

MOST_ASKED = 1_000
LONGEST_LEASE_S = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Told:
    """What a client found: a value, or why there is none.  ``error``: its standard error, in the same unit."""

    trial: int
    value: float | None = None
    error: float | None = None
    state: TrialState = TrialState.COMPLETED
    reason: str = ""


class External:
    """All such studies of one store, in this process."""

    def __init__(self, store: StudyStore, offers: OfferStore, clock: Clock, machine: Callable[[], Machine]) -> None:
        self._store, self._offers, self._clock, self._machine = store, offers, clock, machine
        self._lease = Lease(store)
        self._optimizers: dict[str, Optimizer] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lowest: dict[str, float] = {}
        self._known: dict[str, Study] = {}  # as they were begun: what is asked of them here does not change
        self._renewed: dict[str, float] = {}  # when its lease was, on the monotonic clock
        self._guard = threading.Lock()

    def create(
        self, name: str, space: Mapping[str, Any], optimizer: str, budget: int, seed: int, options: Mapping[str, Any]
    ) -> Study:
        """A study of a space of one's own (``SearchSpace.to_dict``).  Raises InputError."""
        try:
            known = SearchSpace.from_dict(space)
        except (OptimizerError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"space: {error}") from error
        plan = StudyPlan(name, optimizer, dict(options), budget, 1, 0.0, 0.0, 0.0, seed, 0, minimal=0)
        new_optimizer(plan, known)
        now = datetime.fromtimestamp(self._clock.now_ns() / 1e9, UTC)
        study = Study(
            id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
            created_at=now.isoformat(timespec="seconds"),
            state=StudyState.CREATED,
            plan=plan,
            application_hash="",
            space=known.to_dict(),
            machine=self._machine(),
            versions={},
            testbed=EXTERNAL,
        )
        self._store.create(study)
        self._store.set_state(study.id, StudyState.RUNNING)
        return study

    def ask(self, study: str, count: int, client: str, seconds: float) -> Sequence[Trial]:
        """Trials to measure: first those whose clients vanished, then new ones; fewer when the space or budget ends.

        Raises InputError, NotFound.
        """
        if not 1 <= count <= MOST_ASKED or not 0 < seconds <= LONGEST_LEASE_S:
            raise InputError(f"count, lease_s: allowed: 1 to {MOST_ASKED}, above 0 to {LONGEST_LEASE_S:g}")
        found = self._running(study)
        with self._lock(study):
            again = self._offers.take_over(study, client, count, seconds)
            trials = list(self._store.numbered(study, again)) if again else []
            asked = self._optimizer(found)
            for _ in range(count - len(trials)):
                if asked.asks >= found.plan.iterations:
                    break
                try:
                    [suggestion] = asked.ask()
                except SearchExhausted:
                    break
                wanted = Trial(
                    study, 0, "search", suggestion.configuration, TrialState.RUNNING, ask=suggestion.ask, label=client
                )
                expires_ns = self._clock.now_ns() + int(seconds * 1e9)
                trials.append(self._store.begin_trial(wanted, client=client, expires_ns=expires_ns))
        return trials

    def heartbeat(self, study: str, trials: Sequence[int], client: str, seconds: float) -> Sequence[int]:
        """Renew the leases that this client still has; returns their trials.  A lost one was offered to another."""
        self._running(study)
        return self._offers.renew(study, client, trials, seconds)

    def tell(self, study: str, found: Sequence[Told]) -> None:
        """Results, in any order; telling the same again changes nothing.

        Raises NotFound for a trial that was never asked, IllegalTransition for another result than the first,
        InputError.
        """
        about = self._running(study)
        with self._lock(study):
            optimizer = self._optimizer(about)
            known = {trial.number: trial for trial in self._store.numbered(study, [one.trial for one in found])}
            for one in found:
                if one.trial not in known:
                    raise NotFound(f"study {study} has no trial {one.trial}")
                trial = _finished(known[one.trial], one)
                if known[one.trial].state is not TrialState.RUNNING:
                    _same(known[one.trial], trial)
                    continue
                observation = _observation(trial)
                best = trial.value is not None and trial.value < self._lowest.get(study, math.inf)
                self._store.finish_trial(trial, best=best)
                if best and trial.value is not None:
                    self._lowest[study] = trial.value
                optimizer.tell([observation])

    def finish(self, study: str) -> None:
        """Nothing more is asked."""
        self._store.set_state(self._running(study).id, StudyState.COMPLETED)
        self.leave(study)

    def leave(self, study: str) -> None:
        """This process has nothing to do with a study any more."""
        self._lease.release(study)
        for kept in (self._optimizers, self._locks, self._lowest, self._renewed, self._known):
            kept.pop(study, None)

    # ------------------------------------------------------------------ inside

    def _running(self, study: str) -> Study:
        found = self._known.get(study) or self._store.get(study)
        if found.id != study or found.testbed != EXTERNAL:
            raise NotFound(f"no external study {study!r}")
        self._known[study] = found
        state = self._store.state(study)
        if state is not StudyState.RUNNING:
            raise IllegalTransition(f"study {study} is {state}")
        return found

    def _lock(self, study: str) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(study, threading.Lock())

    def _optimizer(self, study: Study) -> Optimizer:
        """The optimizer where the study stands; one process at a time has it."""
        now = self._clock.monotonic()
        since = now - self._renewed.get(study.id, -LEASE_S)
        if since >= LEASE_S / 4:  # not at every ask: a renewal is a write
            self._lease.take(study.id)
            self._renewed[study.id] = now
        if since >= LEASE_S or study.id not in self._optimizers:  # another process may have had it in between
            self._optimizers[study.id] = self._replayed(study)
        return self._optimizers[study.id]

    def _replayed(self, study: Study) -> Optimizer:
        """By the recorded order of asks and tells; where another library asks otherwise, by what was told alone."""
        space = SearchSpace.from_dict(study.space)
        trials = {trial.number: trial for trial in self._store.trials(study.id)}
        self._lowest[study.id] = min((t.value for t in trials.values() if t.value is not None), default=math.inf)
        optimizer = new_optimizer(study.plan, space)
        for event in self._store.events(study.id):
            trial = trials.get(event.get("number", -1))
            if trial is None or event["kind"] not in ("trial begins", "trial ends"):
                continue
            if event["kind"] == "trial ends":
                optimizer.tell([_observation(trial)])
                continue
            [suggestion] = optimizer.ask()
            if suggestion.configuration != trial.configuration:
                self._store.add_event(study.id, "replay diverged", {"trial": trial.number})
                optimizer = new_optimizer(study.plan, space)
                optimizer.tell([_observation(one) for one in trials.values() if one.state is not TrialState.RUNNING])
                return optimizer
        return optimizer


def _finished(trial: Trial, told: Told) -> Trial:
    relative = told.error / abs(told.value) if told.error is not None and told.value else None
    return replace(
        trial, state=told.state, value=told.value, told_value=told.value, standard_error=relative, reason=told.reason
    )


def _observation(trial: Trial) -> Observation:
    """Raises InputError where value and state do not go together."""
    error = None
    if trial.value is not None and trial.standard_error is not None:
        error = abs(trial.value) * trial.standard_error
    try:
        state = ObservationState(trial.state.value)
        return Observation(trial.configuration, state, trial.value, error, trial.ask, reason=trial.reason)
    except (OptimizerError, ValueError) as problem:
        raise InputError(f"trial {trial.number}: {problem}") from problem


def _same(known: Trial, told: Trial) -> None:
    if (known.state, known.value) != (told.state, told.value):
        raise IllegalTransition(f"trial {known.number} was told before: {known.state}, {known.value}")
