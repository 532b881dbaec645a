"""Jobs that wait for workers, trials that clients measure, tokens, idempotency keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("study", sa.String(64), sa.ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("place", sa.String(128), nullable=False),
        sa.Column("queued_ns", sa.BigInteger, nullable=False),
        sa.Column("worker", sa.String(128), nullable=False),
        sa.Column("stop", sa.String(16), nullable=False),
        sa.Column("progress", sa.JSON),
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("scope", sa.String(8), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "offers",
        sa.Column("study", sa.String(64), sa.ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("trial", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("client", sa.String(128), nullable=False),
        sa.Column("expires_ns", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("owner", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(128), primary_key=True),
        sa.Column("request", sa.String(64), nullable=False),
        sa.Column("study", sa.String(64), nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    for name in ("keys", "offers", "tokens", "jobs"):
        op.drop_table(name)
