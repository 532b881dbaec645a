"""The first schema: studies, trials, measurements, events, leases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "studies",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        *(sa.Column(name, sa.JSON, nullable=False) for name in ("plan", "space", "machine", "versions", "rivals")),
        sa.Column("application_hash", sa.String(64), nullable=False),
        sa.Column("testbed", sa.String(32), nullable=False),
        sa.Column("best", sa.Integer),
        sa.Column("verdict", sa.JSON),
    )
    op.create_table(
        "trials",
        _study(primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("purpose", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        *(sa.Column(name, sa.Integer) for name in ("ask", "pair")),
        *(sa.Column(name, sa.Float) for name in ("value", "standard_error", "told_value")),
        sa.Column("reason", sa.Text, nullable=False),
        *(sa.Column(name, sa.JSON, nullable=False) for name in ("configuration", "phases", "images", "standins")),
        sa.Column("documents", sa.String(64), nullable=False),
        sa.Column("label", sa.String(64), nullable=False),
        sa.Column("started_at", sa.String(40), nullable=False),
        sa.Column("finished_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "measurements",
        sa.Column("id", sa.Integer, primary_key=True),
        _study(nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("trial", "repetition", "attempt")),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("latencies", sa.String(64), nullable=False),
    )
    op.create_index("ix_measurements_study_trial", "measurements", ["study", "trial"])
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True),
        _study(nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
    )
    op.create_index("ix_events_study", "events", ["study"])
    op.create_table(
        "leases",
        _study(primary_key=True),
        sa.Column("holder", sa.String(128), nullable=False),
        sa.Column("expires_ns", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    for table in ("leases", "events", "measurements", "trials", "studies"):
        op.drop_table(table)


def _study(*, primary_key: bool = False, nullable: bool = False) -> sa.Column[str]:
    key = sa.ForeignKey("studies.id", ondelete="CASCADE")
    return sa.Column("study", sa.String(64), key, primary_key=primary_key, nullable=nullable)
