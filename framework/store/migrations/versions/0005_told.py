"""Quantities and costs of a trial, which clients tell with its value."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

COLUMNS = ("quantities", "costs")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("trials", sa.Column(name, sa.JSON, nullable=False, server_default=sa.text("'{}'")))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("trials", name)
