"""The decisions of a study move from the plan's ``extra`` to a column."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from framework.model.plan_document import joined, separated

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

STUDIES = sa.table("studies", sa.column("id"), sa.column("plan", sa.JSON), sa.column("decisions", sa.JSON))


def upgrade() -> None:
    op.add_column("studies", sa.Column("decisions", sa.JSON, nullable=False, server_default="{}"))
    for row in _rows():
        plan, decisions = separated(row.plan)
        _set(row.id, plan=plan, decisions=decisions)


def downgrade() -> None:
    for row in _rows():
        _set(row.id, plan=joined(row.plan, row.decisions))
    op.drop_column("studies", "decisions")


def _rows() -> list[sa.Row[tuple[str, dict[str, object], dict[str, object]]]]:
    return list(op.get_bind().execute(sa.select(STUDIES)))


def _set(study: str, **values: object) -> None:
    op.get_bind().execute(STUDIES.update().where(STUDIES.c.id == study).values(**values))
