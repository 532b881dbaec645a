"""A study that is sent to somebody arrives as it was, and a file from a stranger does no harm."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from framework.errors import InputError
from framework.model import Study, StudyState, TuneRequest
from framework.store.offers import SqlOfferStore
from framework.study.export import without_directory
from framework.study.external import External
from framework.study.external_session import TrialResult
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from tests.fakes import pretend_tailor

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"
REQUEST = TuneRequest(SMALL, rate_rps=100.0, iterations=4, repetitions=2, pairs=3, drift_every=0, minimal=0)


class Place:
    """One machine with a store of its own."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        machine = PretendMachine(VirtualClock(), lambda configuration: 10.0, noise=0.05)
        self.tailor, self.database = pretend_tailor(directory, machine)
        self.sharing = self.tailor.sharing


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "here")
    yield place
    place.tailor.close()


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "there")
    yield place
    place.tailor.close()


@pytest.fixture
def study(here: Place) -> Study:
    return here.tailor.studies.run(here.tailor.studies.create(REQUEST).id, lambda event: None)


@pytest.fixture
def file(here: Place, study: Study, tmp_path: Path) -> Path:
    path = tmp_path / "study.zip"
    path.write_bytes(here.sharing.pack(study.id))
    return path


def test_it_arrives_as_it_was(here: Place, there: Place, study: Study, file: Path) -> None:
    there.sharing.unpack(file)
    sent, arrived = (place.tailor.store.get(study.id) for place in (here, there))
    assert replace(arrived, plan=sent.plan, machine=sent.machine) == sent
    before, after = (place.tailor.store.trials(study.id) for place in (here, there))
    assert [replace(trial, documents="") for trial in after] == [replace(trial, documents="") for trial in before]
    for old, new in zip(before, after, strict=True):
        for first, second in zip(old.measurements, new.measurements, strict=True):
            np.testing.assert_array_equal(first.latencies_ms, second.latencies_ms)
    summaries = [place.tailor.results.summary(place.tailor.store.get(study.id)) for place in (here, there)]
    assert summaries[0].headline == summaries[1].headline
    assert summaries[0].changes == summaries[1].changes
    assert "<html" in there.tailor.results.page(there.tailor.store.get(study.id))
    assert len(there.tailor.store.events(study.id)) == len(here.tailor.store.events(study.id))
    with pytest.raises(InputError, match="came without its application"):
        there.tailor.results.export_best(study.id, there.sharing.home / "best")
    with pytest.raises(InputError, match="here already"):
        there.sharing.unpack(file)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tracing: {service: jaeger}\n", "tracing: {service: jaeger}\nleave_out: [seed]\n"),
        ("tracing: {service: jaeger}\n", "tracing: {add: jaeger}\n"),
        (
            "  cache: {type: memcached}\n",
            "  cache:\n    type: memcached\n    parameters: {size: {kind: integer, low: 1, high: 9, default: 2}}\n"
            "    templates: {/etc/cache.conf: cache.tmpl}\n",
        ),
    ],
)
def test_an_application_that_a_study_changes_is_read_again(
    here: Place, there: Place, tmp_path: Path, old: str, new: str
) -> None:
    """Of a template only the placeholders are sent."""
    copy = shutil.copytree(SMALL, tmp_path / "small")
    compose = (copy / "compose.yaml").read_text()
    exports = 'cache: {environment: {OTEL_SERVICE_NAME: cache}, image: "memcached:1.6"}'
    (copy / "compose.yaml").write_text(compose.replace('cache: {image: "memcached:1.6"}', exports))
    (copy / "cache.tmpl").write_text("# a secret\nsize ${cache.size}\n")
    text = (copy / "application.yaml").read_text()
    assert old in text
    (copy / "application.yaml").write_text(text.replace(old, new))
    study = here.tailor.studies.create(replace(REQUEST, application=copy))
    (tmp_path / "study.zip").write_bytes(here.sharing.pack(study.id))
    there.sharing.unpack(tmp_path / "study.zip")
    arrived = there.tailor.store.get(study.id)
    assert there.tailor.results.summary(arrived).study.id == study.id
    assert not [path for path in arrived.directory.rglob("*") if path.is_file() and "a secret" in path.read_text()]


def test_one_that_was_stopped_goes_on_with_the_application_at_hand(here: Place, there: Place, tmp_path: Path) -> None:
    study = here.tailor.studies.create(REQUEST)
    path = tmp_path / "waiting.zip"
    path.write_bytes(here.sharing.pack(study.id))
    there.sharing.unpack(path, SMALL)
    assert there.tailor.studies.run(study.id, lambda event: None).state is StudyState.COMPLETED


def test_one_without_its_application_says_what_is_missing(here: Place, there: Place, tmp_path: Path) -> None:
    study = here.tailor.studies.create(REQUEST)
    path = tmp_path / "waiting.zip"
    path.write_bytes(here.sharing.pack(study.id))
    there.sharing.unpack(path)
    with pytest.raises(InputError, match="came without its application"):
        there.tailor.studies.run(study.id, lambda event: None)


def test_one_that_was_measured_elsewhere_travels_too(here: Place, there: Place, tmp_path: Path) -> None:
    external = External(
        here.tailor.store, SqlOfferStore(here.database, VirtualClock()), VirtualClock(), here.tailor.backends.machine
    )
    space = {"parameters": [{"name": "a", "kind": "real", "default": 0.5, "low": 0.0, "high": 1.0}]}
    study = external.create("ours", space, "random", 5, 1, {})
    [asked] = external.ask(study.id, 1, "me", 60.0)
    external.tell(study.id, [TrialResult(asked.number, 3.0)])
    path = tmp_path / "external.zip"
    path.write_bytes(here.sharing.pack(study.id))
    arrived = there.sharing.unpack(path)
    assert arrived.plan.application == "ours"
    assert [trial.value for trial in there.tailor.store.trials(study.id)] == [3.0]


def test_the_tables_say_what_the_study_says(here: Place, study: Study, file: Path) -> None:
    trials = here.tailor.store.trials(study.id)
    with zipfile.ZipFile(file) as parts:
        tables = {
            name: parquet.read_table(io.BytesIO(parts.read(f"{name}.parquet"))).to_pydict()
            for name in ("trials", "measurements", "latencies")
        }
    assert tables["trials"]["number"] == [trial.number for trial in trials]
    assert tables["trials"]["value"] == [trial.value for trial in trials]
    for name in trials[0].configuration:
        assert tables["trials"][f"configuration.{name}"] == [trial.configuration[name] for trial in trials]
    measured = [measurement for trial in trials for measurement in trial.measurements]
    assert tables["measurements"]["p95.value"] == [measurement.quantities["p95"].value for measurement in measured]
    assert len(tables["latencies"]["latency_ms"]) == sum(len(measurement.latencies_ms) for measurement in measured)


def test_no_path_nor_host_nor_secret_leaves(here: Place, study: Study, file: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(file) as parts:
        everything = b"".join(parts.read(name) for name in parts.namelist())
    assert str(SMALL.parent).encode() not in everything
    assert str(tmp_path).encode() not in everything
    document = json.loads(zipfile.ZipFile(file).read("study.json"))
    assert document["study"]["machine"]["hostname"] == ""
    assert document["study"]["plan"]["application"] == "small"


def test_mounted_files_of_the_application_are_named_from_where_it_is() -> None:
    kept = ["data:/data", "/mnt/home/me/apps/shop/logs:/logs"]
    service = {"image": "nginx", "volumes": ["/home/me/apps/shop/nginx.conf:/etc/nginx.conf:ro", *kept]}
    document = {"documents": {"host": {"services": {"web": service}}}, "files": {}}
    moved = without_directory(document, "/home/me/apps/shop")
    volumes = moved["documents"]["host"]["services"]["web"]["volumes"]
    assert volumes == ["./nginx.conf:/etc/nginx.conf:ro", *kept]


def changed(file: Path, tmp_path: Path, **parts: bytes | None) -> Path:
    """Return the file with some parts replaced, added or (None) left out."""
    path = tmp_path / "changed.zip"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            if name not in parts:
                new.writestr(name, old.read(name))
        for name, data in parts.items():
            if data is not None:
                new.writestr(name, data)
    return path


@pytest.mark.parametrize(
    ("part", "data", "said"),
    [
        ("study.json", None, "study.json"),
        ("study.json", b"{", "study.json"),
        ("study.json", b"[]", "not a study"),
        ("study.json", b'{"format": "tailor study", "version": 7}', "version 7"),
        ("study.json", b'{"format": "tailor study", "version": 1}', "cannot be read"),
        ("latencies.parquet", b"PAR1", "latencies.parquet"),
        ("application/../../../evil", b"x", "no name of a file"),
        ("application/../evil", b"x", "no name of a file"),
        ("application/a//b", b"x", "no name of a file"),
        ("application/", b"", "no name of a file"),
        ("application/a\\b", b"x", "no name of a file"),
        ("application/compose.yaml/x", b"x", "a file and a directory"),
        ("/etc/evil", b"x", "no name of a file"),
        ("other", b"x", "no name of a file"),
        ("artefacts/../../evil", b"x", "no name of a file"),
        ("artefacts/" + 64 * "G", b"x", "no name of a file"),
        ("application//etc/evil", b"x", "no name of a file"),
    ],
)
def test_a_file_that_is_none_is_refused(
    there: Place, study: Study, file: Path, tmp_path: Path, part: str, data: bytes | None, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        there.sharing.unpack(changed(file, tmp_path, **{part: data}))
    assert there.tailor.store.studies() == [], "nothing is half there"
    assert not (tmp_path / "evil").exists()


def test_a_damaged_artefact_is_refused(there: Place, file: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(file) as parts:
        artefact = next(name for name in parts.namelist() if name.startswith("artefacts/"))
    with pytest.raises(InputError, match="damaged"):
        there.sharing.unpack(changed(file, tmp_path, **{artefact: b"other"}))
    assert there.tailor.store.studies() == []


def test_what_is_no_zip_file_is_refused(there: Place, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"hello")
    with pytest.raises(InputError, match="tailor export"):
        there.sharing.unpack(path)
    with pytest.raises(InputError, match="no such file"):
        there.sharing.unpack(tmp_path / "missing.zip")
