"""The condition under which a lease is valid."""

from __future__ import annotations

import sqlalchemy as sa

from framework.store.schema import leases

LONGEST_S = 600.0  # no lease lasts longer; a later expiry dates from before the clock was set back


def alive(now_ns: int) -> sa.ColumnElement[bool]:
    """Return the condition of leases that are valid at a time [ns since 1970]."""
    return (leases.c.expires_ns > now_ns) & (leases.c.expires_ns <= now_ns + int(LONGEST_S * 1e9))
