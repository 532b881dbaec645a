"""The archive of whole studies keeps its contract on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framework.errors import InputError, NotFound
from framework.model import StudyState, TrialState
from framework.store.archive import SqlArchive
from framework.store.artefacts import FileArtefacts
from framework.store.database import Database
from framework.store.jobs import SqlJobQueue
from framework.store.studies import SqlStudyStore
from framework.testing.clock import VirtualClock
from framework.testing.examples import begin, measurement, study


class Kept:
    def __init__(self, url: str, directory: Path) -> None:
        self.clock = VirtualClock()
        self.artefacts = FileArtefacts(directory / "artefacts")
        database = Database(url)
        self.store = SqlStudyStore(database, self.artefacts, self.clock)
        self.archive = SqlArchive(database, self.artefacts)
        self.queue = SqlJobQueue(database, self.clock)
        self.store.create(study())

    def measured(self) -> str:
        """Add a trial to the study; return the digest of its traces."""
        trial = begin(self.store)
        spans = self.artefacts.put(b"traces")
        self.store.add_measurement(study().id, trial.number, replace(measurement(), spans=spans))
        documents = self.artefacts.put(b"documents")
        self.store.finish_trial(replace(trial, state=TrialState.COMPLETED, value=12.5, documents=documents))
        return spans


@pytest.fixture
def kept(url: str, tmp_path: Path) -> Iterator[Kept]:
    opened = Kept(url, tmp_path)
    yield opened
    opened.store.close()


def test_a_study_that_is_restored_is_the_same(kept: Kept) -> None:
    kept.measured()
    name = study().id
    whole, trials, events = kept.store.get(name), kept.store.trials(name), kept.store.events(name)
    with pytest.raises(InputError, match="here already"):
        kept.archive.restore(whole, trials, events)
    kept.store.delete(name)
    kept.archive.restore(whole, trials, events)
    assert kept.store.get(name) == whole
    assert kept.store.trials(name) == trials
    np.testing.assert_array_equal(
        kept.store.trials(name)[0].measurements[0].latencies_ms, trials[0].measurements[0].latencies_ms
    )
    without = [{key: value for key, value in event.items() if key != "id"} for event in kept.store.events(name)]
    assert without == [{key: value for key, value in event.items() if key != "id"} for event in events]


def test_only_a_study_that_nobody_uses_is_idle(kept: Kept) -> None:
    name = study().id
    now = "2026-06-01T00:00:00.000+00:00"  # the virtual clock begins in January
    assert kept.archive.idle_since("2020-01-01T00:00:00.000+00:00") == []
    assert kept.archive.idle_since(now) == [name]
    kept.queue.put(name)
    assert kept.archive.idle_since(now) == [], "it waits for a worker"
    kept.queue.done(name)
    assert kept.store.acquire(name, "somebody", 60.0)
    assert kept.archive.idle_since(now) == [], "somebody has it"
    kept.store.release(name, "somebody")
    kept.store.set_state(name, StudyState.RUNNING)
    assert kept.archive.idle_since(now) == [], "it runs"


def test_results_stay_when_samples_go(kept: Kept) -> None:
    spans = kept.measured()
    before = kept.store.trials(study().id)[0].measurements[0]
    assert spans in kept.archive.referred()
    assert len(kept.archive.referred()) == 3, "samples, traces and documents"
    assert kept.archive.forget_samples(study().id) == 2
    assert kept.archive.forget_samples(study().id) == 0
    after = kept.store.trials(study().id)[0].measurements[0]
    assert after == replace(before, spans=""), "whatever was computed stays"
    assert after.latencies_ms.size == 0
    assert len(kept.archive.referred()) == 1


def test_a_study_that_is_not_there_has_nothing(kept: Kept) -> None:
    kept.store.delete(study().id)
    assert kept.archive.referred() == set()
    with pytest.raises(NotFound):
        kept.store.get(study().id)
