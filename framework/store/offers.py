"""Trials that clients measure elsewhere, with their leases."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from framework.ports import Clock
from framework.store.database import Database
from framework.store.schema import offers


class SqlOfferStore:
    """OfferStore on SQLAlchemy Core."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def take_over(self, study: str, client: str, count: int, seconds: float) -> Sequence[int]:
        """Up to ``count`` trials whose leases ran out are this client's now; their numbers."""
        now = self._clock.now_ns()
        lapsed = (offers.c.study == study) & (offers.c.expires_ns <= now)
        wanted = sa.select(offers.c.trial).where(lapsed).order_by(offers.c.trial).limit(count)
        with self._database.glance() as connection:
            if connection.execute(wanted).first() is None:  # nearly always, and then nothing is written
                return []
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
