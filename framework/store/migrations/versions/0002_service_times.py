"""Service times carry intervals and shares of the critical path: what older measurements hold of them is dropped."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    rows = connection.execute(sa.text("SELECT id, document FROM measurements")).all()
    for identity, document in rows:
        found = json.loads(document) if isinstance(document, str) else document
        if any(not isinstance(one.get("share"), dict) for one in found.get("services", ())):
            statement = sa.text("UPDATE measurements SET document = :document WHERE id = :id")
            connection.execute(statement, {"document": json.dumps({**found, "services": []}), "id": identity})


def downgrade() -> None:
    """What was dropped cannot be brought back; older versions read an empty list."""
