"""The store of tokens, kept as digests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from framework.errors import InputError, NotFound
from framework.model.token import Token
from framework.ports.clock import Clock
from framework.store.database import Database
from framework.store.schema import tokens


class SqlTokenStore:
    """TokenStore on SQLAlchemy Core."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def add(self, name: str, digest: str, scope: Literal["read", "run", "admin"]) -> None:
        """Record a token.  Raises InputError where the name is taken."""
        now = datetime.fromtimestamp(self._clock.now_ns() / 1e9, UTC).isoformat(timespec="seconds")
        with self._database.transaction() as connection:
            if connection.execute(tokens.select().where(tokens.c.name == name)).first() is not None:
                raise InputError(f"there is a token {name!r} already; remove it first")
            row = {"name": name, "digest": digest, "scope": scope, "created_at": now}
            connection.execute(tokens.insert().values(row))

    def remove(self, name: str) -> None:
        """Remove a token.  Raises NotFound."""
        with self._database.transaction() as connection:
            if connection.execute(tokens.delete().where(tokens.c.name == name)).rowcount != 1:
                raise NotFound(f"no token {name!r}")

    def tokens(self) -> Sequence[Token]:
        with self._database.single_read() as connection:
            rows = connection.execute(tokens.select().order_by(tokens.c.name))
            return [Token(row.name, row.digest, row.scope, row.created_at) for row in rows]
