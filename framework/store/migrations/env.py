"""Alembic's entry: migrations run on the connection that the store passes in."""

from __future__ import annotations

from alembic import context

from framework.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by copying it
)
with context.begin_transaction():
    context.run_migrations()
