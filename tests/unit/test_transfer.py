"""``tune --transfer``: a study of another application, recorded once, kept by a resume, shown and exported."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from framework.bootstrap.adapters import Opened
from framework.cli import terminal
from framework.errors import FieldName, InputError, Interrupted, NotFound
from framework.model import Study, StudyId, StudyState, TuneRequest
from framework.model.decisions import Transfer
from framework.model.documents import decode, encode
from framework.model.events import Event, ReplayDiverged, TrialFinished
from framework.report.summary_json import summary_document
from framework.study.new_optimizer import new_optimizer
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from optimizer.space import SearchSpace
from tests.fakes import pretend_tailor

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "cases" / "good" / "small"


def more_memory_is_faster(configuration: Mapping[str, Any]) -> float:
    memory = next((float(value) for name, value in configuration.items() if name.endswith("memory_mib")), 64.0)
    return 5.0 + 300.0 / memory


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another application that shares one type of server: its only cache has another name."""
    directory = tmp_path / "other"
    shutil.copytree(SMALL, directory)
    for name in ("application.yaml", "compose.yaml"):
        text = (directory / name).read_text().replace("cache: {", "store: {").replace("name: small", "name: other")
        (directory / name).write_text(text)
    return directory


@pytest.fixture
def tailor(tmp_path: Path) -> Iterator[Opened]:
    opened, _ = pretend_tailor(tmp_path, PretendMachine(VirtualClock(), more_memory_is_faster, noise=0.01))
    yield opened
    opened.close()


def request(application: Path, **more: Any) -> TuneRequest:
    plain = TuneRequest(application, rate_rps=100.0, repetitions=2, pairs=0, drift_every=0, minimal=0, iterations=12)
    return replace(plain, **more)


@pytest.fixture
def source(tailor: Opened, other: Path) -> Study:
    return run(tailor, request(other, only=("store",)))


def run(tailor: Opened, wanted: TuneRequest) -> Study:
    return tailor.studies.run(tailor.studies.create(wanted).id, lambda event: None)


def searched(tailor: Opened, study: Study) -> list[Mapping[str, Any]]:
    trials = tailor.store.trials(study.id)
    return [trial.configuration for trial in trials if trial.purpose == "search" and trial.value is not None]


def message(error: pytest.ExceptionInfo[InputError]) -> str:
    return error.value.message(lambda field: f"<{field}>")


def test_another_application_is_a_prior_here(tailor: Opened, source: Study) -> None:
    study = run(tailor, request(SMALL, transfer=(StudyId(source.id),), iterations=6))
    assert study.state is StudyState.COMPLETED
    transfer = study.decisions.transfer
    assert transfer is not None
    assert transfer.types == {"front": "nginx", "cache": "memcached"}
    [taken] = transfer.sources
    assert (taken.study, taken.application) == (source.id, "other")
    assert {effect.server for effect in taken.effects} == {"memcached"}
    first = searched(tailor, study)[0]
    best = min(tailor.store.trials(source.id), key=lambda trial: trial.value or 1e9)
    assert first["cache.memory_mib"] > 64, "more memory was better there"
    assert float(best.configuration["store.memory_mib"]) > 64
    assert all(
        value == default
        for name, default in SearchSpace.from_dict(study.space).default().items()
        if name.startswith("front.") and (value := first[name]) is not None
    ), "nothing was learnt of nginx there"


def test_it_is_shown_with_its_weight(tailor: Opened, source: Study) -> None:
    study = run(tailor, request(SMALL, transfer=(StudyId(source.id),), iterations=6))
    summary = tailor.results.summary(study)
    assert summary.transfer is not None
    [taken] = summary.transfer.sources
    assert "memory_mib" in taken.parameters["memcached"]
    assert summary.transfer.weight is not None
    assert summary.transfer.weight > 0.3
    notes = " ".join(terminal.notes(summary))
    assert f"from study {source.id} of other: memcached: " in notes
    assert f"has the weight {summary.transfer.weight:.2f} now" in notes
    document = encode(summary_document(summary))["transfer"]
    assert document["learns"] is True
    assert document["weight"] == pytest.approx(summary.transfer.weight)
    assert "What was taken over from other applications" in tailor.results.page(study)
    console = Console(width=200, record=True)
    terminal.opening(console, study)
    assert f"taken over from study {source.id} of other: memcached: " in console.export_text()


def test_a_study_without_it_says_nothing(tailor: Opened, source: Study) -> None:
    assert source.decisions.transfer is None
    assert tailor.results.summary(source).transfer is None
    assert "taken over" not in " ".join(terminal.notes(tailor.results.summary(source)))


def test_a_resume_keeps_what_was_taken_over_without_its_source(tailor: Opened, source: Study) -> None:
    study = tailor.studies.create(request(SMALL, transfer=(StudyId(source.id),), iterations=8))
    finished = []

    def stop(event: Event) -> None:
        finished.extend([event] if isinstance(event, TrialFinished) else [])
        if len(finished) == 5:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        tailor.studies.run(study.id, stop)
    before = searched(tailor, study)
    tailor.studies.delete(source.id)
    resumed = tailor.studies.run(study.id, lambda event: None)
    assert searched(tailor, study)[: len(before)] == before
    assert len(searched(tailor, study)) == 8
    assert ReplayDiverged.kind not in {event["kind"] for event in tailor.store.events(study.id)}
    assert resumed.decisions.transfer == study.decisions.transfer
    assert decode(Transfer, encode(resumed.decisions.transfer)) == resumed.decisions.transfer


def test_it_travels_with_an_export(tailor: Opened, source: Study, tmp_path: Path) -> None:
    study = run(tailor, request(SMALL, transfer=(StudyId(source.id),), iterations=2))
    file = tmp_path / "study.zip"
    file.write_bytes(tailor.sharing.pack(study.id))
    (tmp_path / "there").mkdir()
    there, _ = pretend_tailor(tmp_path / "there", PretendMachine(VirtualClock(), more_memory_is_faster))
    there.sharing.unpack(file)
    arrived = there.store.get(study.id)
    assert arrived.decisions.transfer == study.decisions.transfer
    assert there.results.summary(arrived).transfer == tailor.results.summary(study).transfer
    there.close()


def test_other_optimizers_start_at_the_best_of_it(tailor: Opened, source: Study) -> None:
    study = run(tailor, request(SMALL, transfer=(StudyId(source.id),), optimizer="dds", iterations=3))
    first = searched(tailor, study)[0]
    assert first["cache.memory_mib"] > 64
    summary = tailor.results.summary(study)
    assert summary.transfer is not None
    assert not summary.transfer.learns
    assert "does not learn from other applications" in " ".join(summary.transfer.sentences)


def test_a_later_edit_leaves_what_is_still_tuned(tailor: Opened, source: Study) -> None:
    study = tailor.studies.create(request(SMALL, transfer=(StudyId(source.id),)))
    space = SearchSpace.from_dict(study.space)
    front = space.subset(name for name in space.names if name.startswith("front."))
    assert new_optimizer(study.plan, study.decisions, front).simulator_prior is None
    assert new_optimizer(study.plan, study.decisions, space).simulator_prior is not None


def test_what_cannot_be_taken_over(tailor: Opened, source: Study, other: Path) -> None:
    transfer = (StudyId(source.id),)
    with pytest.raises(InputError) as none_shared:
        tailor.studies.create(request(SMALL, transfer=transfer, only=("front",)))
    assert message(none_shared).startswith(f"<transfer>: study {source.id} of other shares no parameter")
    assert "types tuned there: memcached; here: nginx; both applications have: memcached" in message(none_shared)
    with pytest.raises(NotFound):
        tailor.studies.create(request(SMALL, transfer=(StudyId("20200101-nothing"),)))
    short = run(tailor, request(other, only=("store",), iterations=2))
    with pytest.raises(InputError) as few:
        tailor.studies.create(request(SMALL, transfer=(StudyId(short.id),)))
    assert message(few) == f"<transfer>: study {short.id}: found 3 configurations with a value; allowed: at least 8"
    fresh = tailor.studies.create(request(other, only=("store",)))
    with pytest.raises(InputError) as unmeasured:
        tailor.studies.create(request(SMALL, transfer=(StudyId(fresh.id),)))
    assert FieldName("transfer") == unmeasured.value.field
    (other / "application.yaml").unlink()
    with pytest.raises(InputError) as gone:
        tailor.studies.create(request(SMALL, transfer=transfer))
    assert "the description of its application other cannot be read" in message(gone)
    assert str(other.parent) not in message(gone), "messages over HTTP name no path"


def test_external_studies_have_no_types(tailor: Opened) -> None:
    space = {"parameters": [{"name": "a.x", "kind": "integer", "default": 1, "low": 1, "high": 9}], "constraints": []}
    study = tailor.external.create("elsewhere", space, "random", 5, 1, {})
    with pytest.raises(InputError) as error:
        tailor.studies.create(request(SMALL, transfer=(StudyId(study.id),)))
    assert "is measured elsewhere, so that nobody knows the types of its servers" in message(error)


def test_an_imported_study_is_a_source_too(tailor: Opened, source: Study, tmp_path: Path) -> None:
    file = tmp_path / "study.zip"
    file.write_bytes(tailor.sharing.pack(source.id))
    (tmp_path / "there").mkdir()
    there, _ = pretend_tailor(tmp_path / "there", PretendMachine(VirtualClock(), more_memory_is_faster))
    there.sharing.unpack(file)
    decided = there.studies.prepared(request(SMALL, transfer=(StudyId(source.id),))).decisions.transfer
    here = tailor.studies.prepared(request(SMALL, transfer=(StudyId(source.id),))).decisions.transfer
    assert decided == here
    there.close()


def test_one_prior_at_a_time(tailor: Opened, source: Study, tmp_path: Path) -> None:
    application = tmp_path / "with-twin"
    shutil.copytree(SMALL, application)
    (application / "twin.json").write_text("{}")
    with pytest.raises(InputError) as error:
        tailor.studies.create(request(application, transfer=(StudyId(source.id),), prior="twin"))
    assert message(error) == "<transfer>: found <prior> twin too; allowed: one of them"
