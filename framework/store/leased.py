"""When a lease holds."""

from __future__ import annotations

import sqlalchemy as sa

from framework.store.schema import leases

LONGEST_S = 600.0  # a lease is given for less; one that would hold for longer was given before the clock was set back


def alive(now_ns: int) -> sa.ColumnElement[bool]:
    """The leases that hold at a time."""
    return (leases.c.expires_ns > now_ns) & (leases.c.expires_ns <= now_ns + int(LONGEST_S * 1e9))
