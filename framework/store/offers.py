"""Trials that clients measure elsewhere, with their leases."""

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
        here = {"its_study": study, "its_now": self._clock.now_ns()}
        with self._database.glance() as connection:  # nearly always nothing has lapsed, and then nothing is written
            row = connection.execute(statements.STATUS, here).first()
        if row is None:
            raise NotFound(f"no study {study!r}")
        return StudyState(row[0]), bool(row[1])

    def take_over(self, study: str, client: str, count: int, seconds: float) -> Sequence[int]:
        now = self._clock.now_ns()
        lapsed = (offers.c.study == study) & (offers.c.expires_ns <= now)
        wanted = sa.select(offers.c.trial).where(lapsed).order_by(offers.c.trial).limit(count)
        with self._database.transaction() as connection:
            numbers = [row.trial for row in connection.execute(wanted.with_for_update())]
            here = (offers.c.study == study) & offers.c.trial.in_(numbers)
            values = {"client": client, "expires_ns": now + int(seconds * 1e9)}
            connection.execute(offers.update().where(here).values(values))
        return numbers

    def renew(self, study: str, client: str, trials: Sequence[int], seconds: float) -> Sequence[int]:
        """Of these trials those that are still this client's, now for longer."""
        expires = self._clock.now_ns() + int(seconds * 1e9)
        here = (offers.c.study == study) & (offers.c.client == client) & offers.c.trial.in_(list(trials))
        with self._database.transaction() as connection:
            numbers = [row.trial for row in connection.execute(sa.select(offers.c.trial).where(here).order_by("trial"))]
            connection.execute(offers.update().where(here).values(expires_ns=expires))
        return numbers
