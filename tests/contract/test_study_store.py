"""The study store on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from framework.errors import NotFound, StoreError
from framework.model import TrialState
from framework.model.decisions import (
    ExpectedChange,
    ImportedResults,
    ModelledPoint,
    Reduction,
    Removed,
    SmallRecommendation,
    SpaceEdit,
    StudyDecisions,
    Thresholds,
)
from framework.model.documents import encode
from framework.model.plan_document import plan_document
from framework.store.artefacts import FileArtefacts
from framework.store.database import MIGRATIONS, Database
from framework.store.offers import SqlOfferStore
from framework.store.schema import leases
from framework.store.studies import SqlStudyStore
from framework.testing.clock import VirtualClock
from framework.testing.examples import begin, measurement, study
from framework.testing.study_store import StudyStoreContract
from optimizer.transfer import Known

CUT = Reduction("critical-path", Thresholds(), ("cache",), (Removed("web", 3, "off the path"),), {"cache": 1.0}, 2, 5)


@pytest.fixture
def store(tmp_path: Path, url: str) -> Iterator[SqlStudyStore]:
    database = Database(url)
    opened = SqlStudyStore(database, FileArtefacts(tmp_path / "artefacts"), VirtualClock())
    opened.create(study())
    yield opened
    opened.close()


@pytest.fixture
def offers(store: SqlStudyStore) -> SqlOfferStore:
    return SqlOfferStore(store._database, store._clock)


class TestSqlStudyStore(StudyStoreContract):
    """The contract of every study store."""


def test_a_row_that_is_refused_is_told_and_undoes_the_others(store: SqlStudyStore) -> None:
    """The error is raised although rows are sent to a server without waiting for each answer."""
    database = store._database

    def twice() -> None:
        with database.transaction() as connection, database.pipelined_commit(connection):
            for _ in range(2):
                connection.execute(leases.insert(), {"study": study().id, "holder": "a:1", "expires_ns": 2**62})

    with pytest.raises(StoreError, match="refused a row"):
        twice()
    assert store.leased() == []
    assert begin(store).number == 1, "and the connection is good for more"


def test_a_lease_keeps_others_out_until_it_ends(store: SqlStudyStore, url: str, tmp_path: Path) -> None:
    clock = VirtualClock()
    other = SqlStudyStore(Database(url), FileArtefacts(tmp_path / "artefacts"), clock)
    assert store.acquire(study().id, "a:1", 60)
    assert not other.acquire(study().id, "b:2", 60)
    assert other.leased() == [(study().id, "a:1")]
    clock.sleep(61)
    assert other.acquire(study().id, "b:2", 60)
    other.release(study().id, "a:1")  # not the holder: nothing happens
    assert other.leased() == [(study().id, "b:2")]
    other.release(study().id, "b:2")
    assert other.leased() == []
    other.close()


@pytest.mark.parametrize("step_s", [-7_200.0, -3_600.0, 3_600.0])
def test_a_lease_ends_after_a_step_of_the_clock(store: SqlStudyStore, step_s: float) -> None:
    clock = store._clock
    assert isinstance(clock, VirtualClock)
    clock.sleep(10_000)
    assert store.acquire(study().id, "a:1", 60)
    clock.sleep(step_s)
    assert store.leased() == [], "the lease is no longer counted"
    assert store.acquire(study().id, "b:2", 60)
    assert not store.acquire(study().id, "a:1", 60), "the former holder notices at its next step"


def test_an_unusable_place_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be used"):
        SqlStudyStore(Database(f"sqlite:///{tmp_path / 'no' / 's.db'}"), FileArtefacts(tmp_path), VirtualClock())


def test_artefacts_are_checked(tmp_path: Path) -> None:
    artefacts = FileArtefacts(tmp_path)
    digest = artefacts.put(b"text")
    assert artefacts.put(b"text") == digest
    assert artefacts.get(digest) == b"text"
    (tmp_path / digest[:2] / digest).write_bytes(b"damaged")
    with pytest.raises(StoreError, match="damaged"):
        artefacts.get(digest)
    with pytest.raises(NotFound):
        artefacts.get("0" * 64)


def test_measurements_of_the_first_schema_are_read_without_their_service_times(tmp_path: Path) -> None:
    url, artefacts = f"sqlite:///{tmp_path / 's.db'}", FileArtefacts(tmp_path / "artefacts")
    new = SqlStudyStore(Database(url), artefacts, VirtualClock())
    new.create(study())
    trial = begin(new)
    new.add_measurement(trial.study, trial.number, measurement())
    new.finish_trial(replace(trial, state=TrialState.COMPLETED, value=12.5))
    new.close()
    # As the first version wrote them: a share was a number, without an interval.
    with closing(sqlite3.connect(tmp_path / "s.db")) as database, database:
        [(text,)] = database.execute("SELECT document FROM measurements").fetchall()
        old = {**json.loads(text), "services": [{"name": "cache", "mean_ms": 1.5, "share": 0.25, "spans": 40}]}
        database.execute("UPDATE measurements SET document = ?", (json.dumps(old),))
        database.execute("UPDATE alembic_version SET version_num = '0001'")
        for table in ("jobs", "offers", "tokens", "keys", "artefacts", "batch_jobs"):
            database.execute(f"DROP TABLE {table}")
        for column in ("modelled", "decisions"):
            database.execute(f"ALTER TABLE studies DROP COLUMN {column}")
        for column in ("quantities", "costs", "passed", "testbed", "pending_asks"):
            database.execute(f"ALTER TABLE trials DROP COLUMN {column}")
    opened = SqlStudyStore(Database(url), artefacts, VirtualClock())
    [read] = opened.trials(study().id)
    assert read.measurements == (measurement(),)  # which holds no service times; all else is as it was
    opened.close()


def downgraded(url: str, revision: str) -> None:
    """Bring a database back to an older revision of its schema."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)
    engine.dispose()


def test_decisions_that_an_older_store_kept_in_the_plan(url: str, tmp_path: Path) -> None:
    """Every kind of decision goes back to where an older Tailor reads it, and is read from there."""
    artefacts = FileArtefacts(tmp_path / "artefacts")
    decisions = StudyDecisions(
        initial={"cache.size": 5},
        inert=("cache.policy",),
        history=(ImportedResults("s0", {"cache.size": 1}, (Known({"cache.size": 9}, -0.1, 0.02),)),),
        warmup_s=7.0,
        reduction=CUT,
        prior=(ModelledPoint({}, math.inf),),
        iterations=4,
        minimal=(),
        small=SmallRecommendation(
            {"cache.size": 5}, {"cache.size": 6}, (ExpectedChange(("cache.size",), 5, -0.2, 0.1, "memory"),), 0.01, 0.02
        ),
        edits=(SpaceEdit(3, {"cache.size": 2}, only=("cache",)),),
    )
    new = SqlStudyStore(Database(url), artefacts, VirtualClock())
    new.create(replace(study(), decisions=decisions))
    new.close()
    downgraded(url, "0006")
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        plan = connection.execute(sa.select(sa.table("studies", sa.column("plan", sa.JSON)))).scalar_one()
    engine.dispose()
    assert (plan["warmup_s"], plan["iterations"], plan["only"]) == (7.0, 4, ["cache"]), "as an older Tailor changed it"
    assert plan["extra"] == {
        "initial": {"cache.size": 5},
        "inert": ["cache.policy"],
        "history": [
            {
                "source": "s0",
                "default": {"cache.size": 1},
                "results": [{"values": {"cache.size": 9}, "log_ratio": -0.1, "error": 0.02}],
            }
        ],
        "warm-up": 7.0,
        "frozen": 4,
        "reduction": encode(CUT),
        "prior": [{"values": {}, "log_ratio": "inf"}],
        "minimal": [],
        "small": {
            "values": {"cache.size": 5},
            "full": {"cache.size": 6},
            "changes": [
                {"names": ["cache.size"], "value": 5, "log_ratio": -0.2, "deviation": 0.1, "risk": "memory"},
            ],
            "loss": 0.01,
            "loss_deviation": 0.02,
        },
        "edits": [{"after": 3, "default": {"cache.size": 2}}],
    }
    opened = SqlStudyStore(Database(url), artefacts, VirtualClock())  # which migrates it again
    read = opened.get(study().id)
    assert read.decisions == decisions
    effective = read.effective_plan
    assert (effective.warmup_s, effective.iterations, effective.only) == (7.0, 4, ("cache",))
    assert plan_document(read) == plan
    opened.close()
