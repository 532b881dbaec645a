"""Connections to a database: a read sees one moment, and an idle connection that was cut off is made again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from framework.errors import StoreBusy, StoreError
from framework.store import database
from framework.store.database import Database
from framework.store.examination import examine
from framework.store.schema import tokens

ON_A_SERVER = pytest.mark.parametrize("url", [pytest.param("postgresql", marks=pytest.mark.docker)], indirect=True)
TOKEN = {"name": "a", "digest": "b", "scope": "read", "created_at": "now"}


@pytest.fixture
def opened(url: str) -> Iterator[Database]:
    kept = Database(url)
    yield kept
    kept.close()


def test_what_is_read_in_one_go_is_of_one_moment(opened: Database) -> None:
    count = sa.select(sa.func.count()).select_from(tokens)
    with opened.reading() as looking:
        before = looking.execute(count).scalar()
        with opened.transaction() as writing:
            writing.execute(tokens.insert().values(TOKEN))
        assert looking.execute(count).scalar() == before == 0
    with opened.single_read() as looking:
        assert looking.execute(count).scalar() == 1


def cut_off(kept: Database) -> None:
    """End every other connection to this database, as a server that restarts does."""
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    other = sa.create_engine(kept._engine.url)
    with other.connect() as connection:
        connection.execute(sa.text(others))
    other.dispose()


@ON_A_SERVER
def test_a_connection_that_was_cut_off_while_it_rested_is_made_again(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "IDLE_S", 0.0)
    for begin in (opened.single_read, opened.reading, opened.transaction):
        cut_off(opened)
        with begin() as connection:
            assert connection.execute(sa.select(tokens)).all() == []


@ON_A_SERVER
def test_a_connection_that_was_cut_off_in_use_is_busy_and_made_again(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "IDLE_S", 3600.0)
    cut_off(opened)
    with pytest.raises(StoreBusy), opened.single_read() as connection:
        connection.execute(sa.select(tokens))
    with opened.single_read() as connection:
        assert connection.execute(sa.select(tokens)).all() == []


def test_readiness_looks_whether_it_can_be_written(url: str) -> None:
    whole = Database(url)
    examine(whole)
    whole.close()
    if url.startswith("postgresql"):
        read_only = Database(f"{url}?options=-c%20default_transaction_read_only%3Don")
        with pytest.raises(StoreError, match="read-only"):
            examine(read_only)
        read_only.close()
