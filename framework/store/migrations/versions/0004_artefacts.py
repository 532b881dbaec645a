"""Artefacts in the database, for workers on several machines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "artefacts",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("put_ns", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("artefacts")
