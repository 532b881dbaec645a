"""A job's ``place`` is called what it is: the resource that it needs for itself alone."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE jobs RENAME COLUMN place TO resource")


def downgrade() -> None:
    op.execute("ALTER TABLE jobs RENAME COLUMN resource TO place")
