"""A job's ``place`` becomes its ``resource``; a study records whether it was modelled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE jobs RENAME COLUMN place TO resource")
    op.add_column("studies", sa.Column("modelled", sa.Boolean, nullable=False, server_default=sa.false()))
    op.execute("UPDATE studies SET modelled = (testbed = 'twin')")  # the only modelled testbed at that time


def downgrade() -> None:
    op.drop_column("studies", "modelled")
    op.execute("ALTER TABLE jobs RENAME COLUMN resource TO place")
