"""Trials tell the testbed on which they ran, and the asks that had no result when they were asked for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trials", sa.Column("testbed", sa.String(255), nullable=False, server_default=""))
    op.add_column("trials", sa.Column("pending_asks", sa.JSON, nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("trials", "pending_asks")
    op.drop_column("trials", "testbed")
