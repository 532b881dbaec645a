"""Best-effort jobs that a guard runs beside a latency-critical service."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "batch_jobs",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("used_s", sa.Float, nullable=False),
        sa.Column("useful_s", sa.Float, nullable=False),
        sa.Column("wasted_s", sa.Float, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("queued_ns", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("batch_jobs")
