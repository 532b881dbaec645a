"""Service times have intervals and shares of the critical path; those of older measurements are dropped."""

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
        measurement = json.loads(document) if isinstance(document, str) else document
        if any(not isinstance(service.get("share"), dict) for service in measurement.get("services", ())):
            statement = sa.text("UPDATE measurements SET document = :document WHERE id = :id")
            connection.execute(statement, {"document": json.dumps({**measurement, "services": []}), "id": identity})


def downgrade() -> None:
    """Do nothing: dropped service times cannot be restored, and older versions read an empty list."""
