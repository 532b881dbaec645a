"""Studies that are measured elsewhere: a team asks for configurations and tells what it found, in its own way.

What is asked is a trial with a lease.  A client that vanishes lets it run out, and its trial is offered again.  The
order of asks and tells is in the store's events, so that another process brings the optimizer to the same place by
replay.
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
"""Of all studies whose optimizers a process keeps: those of hyperopt take 9 kB for each, and the garbage collector,
which stops the process, 0.1 ms."""


@dataclass(slots=True)
class _Kept:
    """A study's session, with how many threads use it, and its weight when the last one left."""

    session: ExternalSession
    users: int = 0
    weight: int = 0


class External:
    """All such studies of one store, in this process.

    ``kept_parameters``: the optimizers of studies that have so many together are kept, those used last; another one is
    brought to its place again by replay.
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
        self._desks: OrderedDict[str, _Kept] = OrderedDict()  # those used last at the end
        self._weight = 0  # of them
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
        """A study of a space of one's own, recorded: see ``prepared``.  Raises InputError."""
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
        """A study of a space of one's own (``SearchSpace.to_dict``) that runs from its beginning, not recorded yet.

        ``subject_to``: limits such as ``errors <= 0.01`` on quantities that clients tell beside the value; ``also``:
        those that are wanted low too (``throughput`` high).  Raises InputError.
        """
        if not is_plain_name(name):
            raise InputError(f"name: found {name[:128]!r}; allowed: at most 128 printable characters, no slashes")
        try:
            known = SearchSpace.from_dict(space)
        except (OptimizerError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"space: {error}") from error
        plan = StudyPlan(name, optimizer, dict(options), budget, 1, 0.0, 0.0, 0.0, seed, 0, minimal=0)
        plan = replace(plan, subject_to=tuple(subject_to), also=tuple(also))
        if VALUE in objective_of(plan).beside:
            raise InputError(f"subject_to, also: {VALUE} is what is minimised; allowed: other quantities")
        new_optimizer(plan, StudyDecisions(), known)
        now = datetime.fromtimestamp(self._clock.now_ns() / 1e9, UTC)
        return Study(
            id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
            created_at=now.isoformat(timespec="seconds"),
            state=StudyState.RUNNING,
            plan=plan,
            application_hash="",
            space=known.to_dict(),
            machine=self._machine(),
            versions={},
            testbed=EXTERNAL,
        )

    def ask(self, study: str, count: int, client: str, seconds: float) -> Sequence[Trial]:
        """Trials to measure: first those whose clients vanished, then new ones; fewer when the space or budget ends.

        Raises InputError, NotFound, IllegalTransition.
        """
        if not 1 <= count <= MOST_ASKED or not 0 < seconds <= LONGEST_LEASE_S:
            raise InputError(f"count, lease_s: allowed: 1 to {MOST_ASKED}, above 0 to {LONGEST_LEASE_S:g}")
        with self._session(study) as session:
            return session.ask(AskRequest(count, client, seconds))

    def heartbeat(self, study: str, trials: Sequence[int], client: str, seconds: float) -> Sequence[int]:
        """Renew the leases that this client still has; returns their trials.  A lost one was offered to another."""
        with self._session(study) as session:
            session.running()
        return self._offers.renew(study, client, trials, seconds)

    def tell(self, study: str, found: Sequence[TrialResult]) -> None:
        """Results, in any order, all of them or none; telling the same again changes nothing.

        Raises NotFound for a trial that was never asked, IllegalTransition for another result than the first,
        InputError.
        """
        with self._session(study) as session:
            session.tell(found)

    def finish(self, study: str) -> None:
        """Nothing more is asked."""
        with self._session(study) as session:
            session.running()
        self._store.set_state(study, StudyState.COMPLETED)
        self.leave(study)

    def leave(self, study: str) -> None:
        """This process has nothing to do with a study any more."""
        self._lease.release(study)
        with self._guard:
            self._forget(study)

    @contextmanager
    def _session(self, study: str) -> Iterator[ExternalSession]:
        """Raises NotFound."""
        with self._guard:
            known = self._desks.get(study)
            if known is not None:
                known.users += 1
        if known is None:
            made = _Kept(self._made(study))
            with self._guard:
                known = self._desks.setdefault(study, made)
                known.users += 1
        try:
            yield known.session
        finally:
            with self._guard:
                known.users -= 1
                if self._desks.get(study) is known:  # else the study was left meanwhile
                    self._desks.move_to_end(study)
                    self._weight += known.session.weight - known.weight
                    known.weight = known.session.weight
                    self._make_room()

    def _made(self, study: str) -> ExternalSession:
        """Raises NotFound."""
        found = self._store.get(study)
        if found.id != study or found.testbed != EXTERNAL:
            raise NotFound(f"no external study {study!r}")
        return ExternalSession(found, self._store, self._offers, self._lease, self._clock)

    def _make_room(self) -> None:
        """Forget what was used longest ago and is not used now; never the one that was used last.

        Leases end by themselves: to give one back here could take it from a thread that has just begun anew.
        """
        if self._weight > self._kept_parameters:
            for study in [name for name, kept in self._desks.items() if not kept.users][:-1]:
                self._forget(study)
                if self._weight <= self._kept_parameters:
                    return

    def _forget(self, study: str) -> None:
        found = self._desks.pop(study, None)
        self._weight -= found.weight if found is not None else 0
