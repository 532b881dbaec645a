"""External studies: clients ask for configurations, measure them in their own way and tell the results.

An ask returns trials with leases.  When a client vanishes, its lease expires and its trial is offered again.  The order
of asks and tells is in the store's events, so that another process restores the optimizer by replay.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from framework.errors import InputError, NotFound
from framework.model import EXTERNAL, Machine, Study, StudyPlan, StudyState, Trial
from framework.model.decisions import StudyDecisions
from framework.model.identity import is_plain_name
from framework.ports.clock import Clock
from framework.ports.store import OfferStore, StudyStore
from framework.study.external_session import VALUE, AskRequest, ExternalSession, TrialResult, objective_of
from framework.study.lease import Lease
from framework.study.new_optimizer import new_optimizer
from optimizer.errors import OptimizerError
from optimizer.space import SearchSpace

MOST_ASKED = 1_000
LONGEST_LEASE_S = 7 * 24 * 3600.0
KEPT_PARAMETERS = 5_000
"""Parameters of all studies whose optimizers a process caches.  With hyperopt, each takes 9 kB of memory and 0.1 ms of
every garbage collection, which stops the process."""


@dataclass(slots=True)
class _CachedSession:
    """A study's session, the number of threads that use it, and its weight when the last one left."""

    session: ExternalSession
    users: int = 0
    weight: int = 0


class External:
    """All external studies of one store, in this process.

    ``kept_parameters``: the most recently used optimizers stay in memory as long as they have at most so many
    parameters in all; others are restored by replay.
    """

    def __init__(
        self,
        store: StudyStore,
        offers: OfferStore,
        clock: Clock,
        machine: Callable[[], Machine],
        kept_parameters: int = KEPT_PARAMETERS,
    ) -> None:
        self._store, self._offers, self._clock, self._machine = store, offers, clock, machine
        self._lease = Lease(store)
        self._kept_parameters = kept_parameters
        self._sessions: OrderedDict[str, _CachedSession] = OrderedDict()  # the most recently used last
        self._weight = 0  # of all sessions
        self._guard = threading.Lock()

    def create(
        self,
        name: str,
        space: Mapping[str, Any],
        optimizer: str,
        budget: int,
        seed: int,
        options: Mapping[str, Any],
        *,
        subject_to: Sequence[str] = (),
        also: Sequence[str] = (),
    ) -> Study:
        """Record a study of the caller's own space, and return it: see ``prepared``.  Raises InputError."""
        study = self.prepared(name, space, optimizer, budget, seed, options, subject_to=subject_to, also=also)
        self._store.create(study)
        return study

    def prepared(
        self,
        name: str,
        space: Mapping[str, Any],
        optimizer: str,
        budget: int,
        seed: int,
        options: Mapping[str, Any],
        *,
        subject_to: Sequence[str] = (),
        also: Sequence[str] = (),
    ) -> Study:
        """Return a running study of the caller's own ``space`` (``SearchSpace.to_dict``), not recorded yet.

        ``subject_to``: limits such as ``errors <= 0.01`` on quantities that clients tell with the value; ``also``:
        quantities to minimise too (``throughput`` is maximised).  Raises InputError.
        """
        if not is_plain_name(name):
            raise InputError(f"name: found {name[:128]!r}; allowed: at most 128 printable characters, no slashes")
        try:
            search_space = SearchSpace.from_dict(space)
        except (OptimizerError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"space: {error}") from error
        plan = StudyPlan(name, optimizer, dict(options), budget, 1, 0.0, 0.0, 0.0, seed, 0, minimal=0)
        plan = replace(plan, subject_to=tuple(subject_to), also=tuple(also))
        if VALUE in objective_of(plan).secondary_quantities:
            raise InputError(f"subject_to, also: {VALUE} is what is minimised; allowed: other quantities")
        new_optimizer(plan, StudyDecisions(), search_space)
        now = datetime.fromtimestamp(self._clock.now_ns() / 1e9, UTC)
        return Study(
            id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
            created_at=now.isoformat(timespec="seconds"),
            state=StudyState.RUNNING,
            plan=plan,
            application_hash="",
            space=search_space.to_dict(),
            machine=self._machine(),
            versions={},
            testbed=EXTERNAL,
        )

    def ask(self, study: str, count: int, client: str, seconds: float) -> Sequence[Trial]:
        """Return trials: first those whose leases expired, then new ones; fewer when the space or budget is exhausted.

        Raises InputError, NotFound, IllegalTransition.
        """
        if not 1 <= count <= MOST_ASKED or not 0 < seconds <= LONGEST_LEASE_S:
            raise InputError(f"count, lease_s: allowed: 1 to {MOST_ASKED}, above 0 to {LONGEST_LEASE_S:g}")
        with self._session(study) as session:
            return session.ask(AskRequest(count, client, seconds))

    def heartbeat(self, study: str, trials: Sequence[int], client: str, seconds: float) -> Sequence[int]:
        """Renew the leases that this client still has; return their trials.

        A trial that is missing there may be another client's by now.  Raises IllegalTransition, NotFound.
        """
        with self._session(study) as session:
            session.running()
        return self._offers.renew(study, client, trials, seconds)

    def tell(self, study: str, results: Sequence[TrialResult]) -> None:
        """Record results, in any order, all of them or none; a result that is told again changes nothing.

        Raises NotFound for a trial that was never asked, IllegalTransition for another result than the first,
        InputError.
        """
        with self._session(study) as session:
            session.tell(results)

    def finish(self, study: str) -> None:
        """Complete a study: nothing more can be asked.  Raises IllegalTransition where it does not run, NotFound."""
        with self._session(study) as session:
            session.running()
        self._store.set_state(study, StudyState.COMPLETED)
        self.leave(study)

    def leave(self, study: str) -> None:
        """Release the lease of a study and drop its session from memory."""
        self._lease.release(study)
        with self._guard:
            self._drop(study)

    @contextmanager
    def _session(self, study: str) -> Iterator[ExternalSession]:
        """Yield the session of a study, from the cache or new.  Raises NotFound."""
        with self._guard:
            cached = self._sessions.get(study)
            if cached is not None:
                cached.users += 1
        if cached is None:
            new = _CachedSession(self._new_session(study))
            with self._guard:
                cached = self._sessions.setdefault(study, new)
                cached.users += 1
        try:
            yield cached.session
        finally:
            with self._guard:
                cached.users -= 1
                if self._sessions.get(study) is cached:  # else the study was left meanwhile
                    self._sessions.move_to_end(study)
                    self._weight += cached.session.weight - cached.weight
                    cached.weight = cached.session.weight
                    self._evict()

    def _new_session(self, name: str) -> ExternalSession:
        """Return a session without an optimizer yet.  Raises NotFound."""
        study = self._store.get(name)
        if study.id != name or study.testbed != EXTERNAL:
            raise NotFound(f"no external study {name!r}")
        return ExternalSession(study, self._store, self._offers, self._lease, self._clock)

    def _evict(self) -> None:
        """Drop the least recently used sessions that no thread uses; never the most recently used one.

        Their leases expire by themselves: releasing one here could take it from a thread with a new session.
        """
        if self._weight > self._kept_parameters:
            for study in [name for name, cached in self._sessions.items() if not cached.users][:-1]:
                self._drop(study)
                if self._weight <= self._kept_parameters:
                    return

    def _drop(self, study: str) -> None:
        cached = self._sessions.pop(study, None)
        self._weight -= cached.weight if cached is not None else 0
