"""Trials tell which parameters were seen to be passed, but not told by a server."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trials", sa.Column("passed", sa.JSON, nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("trials", "passed")
