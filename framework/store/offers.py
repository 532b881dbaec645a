"""The store of offers: trials of external studies, leased to clients."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from framework.errors import NotFound
from framework.model import StudyState
from framework.ports.clock import Clock
from framework.store import statements
from framework.store.database import Database
from framework.store.schema import offers


class SqlOfferStore:
    """OfferStore on SQLAlchemy Core."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def status(self, study: str) -> tuple[StudyState, bool]:
        parameters = {"its_study": study, "its_now": self._clock.now_ns()}
        with self._database.single_read() as connection:  # expired leases are rare, so that this mostly saves a write
            row = connection.execute(statements.STATUS, parameters).first()
        if row is None:
            raise NotFound(f"no study {study!r}")
        return StudyState(row[0]), bool(row[1])

    def take_over(self, study: str, client: str, count: int, seconds: float) -> Sequence[int]:
        now = self._clock.now_ns()
        expired = (offers.c.study == study) & (offers.c.expires_ns <= now)
        wanted = sa.select(offers.c.trial).where(expired).order_by(offers.c.trial).limit(count)
        with self._database.transaction() as connection:
            numbers = [row.trial for row in connection.execute(wanted.with_for_update())]
            condition = (offers.c.study == study) & offers.c.trial.in_(numbers)
            values = {"client": client, "expires_ns": now + int(seconds * 1e9)}
            connection.execute(offers.update().where(condition).values(values))
        return numbers

    def renew(self, study: str, client: str, trials: Sequence[int], seconds: float) -> Sequence[int]:
        """Renew the leases that this client still has on these trials; return their numbers."""
        expires = self._clock.now_ns() + int(seconds * 1e9)
        condition = (offers.c.study == study) & (offers.c.client == client) & offers.c.trial.in_(list(trials))
        with self._database.transaction() as connection:
            numbers = [
                row.trial for row in connection.execute(sa.select(offers.c.trial).where(condition).order_by("trial"))
            ]
            connection.execute(offers.update().where(condition).values(expires_ns=expires))
        return numbers
