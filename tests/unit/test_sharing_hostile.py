"""A file of a study from a stranger: refused with the reason, in bounded memory, and nothing anywhere has changed."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from framework.config.reading import MIB
from framework.errors import InputError, NotFound, StoreError
from framework.model import Study
from framework.store.artefacts import FileArtefacts
from framework.study.archive_reader import DOCUMENT_BYTES, MOST_VALUES
from framework.study.archive_tables import MOST_ROWS, PAGE_BYTES
from framework.study.imported import IMPORTED
from tests.unit.test_sharing import REQUEST, SMALL, Place

ROOT = Path(__file__).resolve().parents[2]
MOST_MEMORY_MIB = 600  # more than before, while a file is refused or taken in


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Study]]:
    """A good file, of a finished study."""
    here = Place(tmp_path_factory.mktemp("sent") / "here")
    study = here.tailor.studies.run(here.tailor.studies.create(REQUEST).id, lambda event: None)
    path = here.sharing.home / "study.zip"
    path.write_bytes(here.sharing.pack(study.id))
    yield path, study
    here.tailor.close()


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Place]:
    """The machine that imports the file: another study is there already, with its description."""
    other = Place(tmp_path / "other")
    study = other.tailor.studies.create(REQUEST)
    (tmp_path / "first.zip").write_bytes(other.sharing.pack(study.id))
    other.tailor.close()
    place = Place(tmp_path / "there")
    place.sharing.unpack(tmp_path / "first.zip")
    yield place
    place.tailor.close()


def tree(directory: Path) -> Mapping[str, str]:
    """Return everything below a directory, byte for byte; the database by its rows (its log moves pages about)."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "/"
        for path in sorted(directory.rglob("*"))
        if not path.name.startswith("s.db") and not path.name.endswith((".db", ".db-wal", ".db-shm"))
    }


def rows(place: Place) -> list[Any]:
    store = place.tailor.store
    return [(study, store.trials(study.id), store.events(study.id)) for study in store.studies()]


def parts_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(path: Path, parts: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in parts.items():
            file.writestr(name, data)
    return path


def refused(place: Place, path: Path, said: str = "study.json") -> None:
    before = tree(place.sharing.home), rows(place)
    with pytest.raises(InputError, match=said):
        place.sharing.unpack(path)
    assert (tree(place.sharing.home), rows(place)) == before, "a file that is refused changes nothing"


Change = Callable[[dict[str, Any]], object]

DOCUMENTS: dict[str, Change] = {
    "an application called ..": lambda d: d["study"]["plan"].update(application=".."),
    "an application that is a path": lambda d: d["study"]["plan"].update(application="../other/small"),
    "an absolute application": lambda d: d["study"]["plan"].update(application="/etc"),
    "an empty application": lambda d: d["study"]["plan"].update(application=""),
    "an application with a newline": lambda d: d["study"]["plan"].update(application="a\nb"),
    "an application with a long name": lambda d: d["study"]["plan"].update(application="ä" * 200),
    "a study called ..": lambda d: renamed(d, ".."),
    "a study that is a path": lambda d: renamed(d, "../x"),
    "a study with an empty id": lambda d: renamed(d, ""),
    "a study with a long id": lambda d: renamed(d, "x" * 65),
    "a study with an escape": lambda d: renamed(d, "a\x1b[0m"),
    "an id that is no text": lambda d: d["study"].update(id=["x"]),
    "trials of another study": lambda d: d["trials"][0].update(study="other"),
    "a digest that is a path": lambda d: d["trials"][0].update(documents="../../../etc/passwd"),
    "traces that are a path": lambda d: d["measurements"][0].update(spans="../s.db"),
    "a digest of another alphabet": lambda d: d["trials"][0].update(documents="Z" * 64),
    "two trials of one number": lambda d: d["trials"][1].update(number=d["trials"][0]["number"]),
    "a trial of a huge number": lambda d: d["trials"][0].update(number=2**40),
    "a number of a hundred digits": lambda d: d["trials"][0].update(ask=10**100),
    "a measurement of no trial": lambda d: d["measurements"][0].update(trial=999),
    "a message that is a list": lambda d: d["study"].update(message=[1]),
    "a plan that is a list": lambda d: d["study"].update(plan=[]),
    "an optimizer that is a mapping": lambda d: d["study"]["plan"].update(optimizer={}),
    "a rate that is a mapping": lambda d: d["study"]["plan"].update(rate_rps={}),
    "a testbed that is a path": lambda d: d["study"].update(testbed="a/b"),
    "a purpose that is none": lambda d: d["trials"][0].update(purpose="evil"),
    "an event that is a list": lambda d: d["events"].append([]),
    "an event with a long kind": lambda d: d["events"].append({"at": "", "kind": "x" * 99}),
    "a NUL": lambda d: d["study"].update(message="a\0b"),
    "a space that is none": lambda d: d["study"].update(space={"parameters": [{"name": 1}]}),
    "a deep value": lambda d: d["study"]["plan"]["extra"].update(x=nested(200)),
}


def renamed(document: dict[str, Any], name: str) -> None:
    document["study"]["id"] = name
    for trial in document["trials"]:
        trial["study"] = name


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_that_says_what_no_export_says(
    there: Place, sent: tuple[Path, Study], tmp_path: Path, name: str
) -> None:
    parts = parts_of(sent[0])
    document = json.loads(parts["study.json"])
    DOCUMENTS[name](document)
    parts["study.json"] = json.dumps(document).encode()
    refused(there, packed(tmp_path / "hostile.zip", parts))


def test_the_study_of_another_id_does_not_rewrite_anothers_description(
    there: Place, sent: tuple[Path, Study], tmp_path: Path
) -> None:
    """It says that it is the one that is here: nothing of that one's description changes before it is refused."""
    [first] = there.tailor.store.studies()
    parts = parts_of(sent[0])
    document = json.loads(parts["study.json"])
    renamed(document, first.id)
    parts |= {"study.json": json.dumps(document).encode(), "application/compose.yaml": b"services: {evil: {}}"}
    refused(there, packed(tmp_path / "hostile.zip", parts), "here already")


def test_what_is_refused_late_has_written_nothing(there: Place, sent: tuple[Path, Study], tmp_path: Path) -> None:
    """The last thing that is looked at is wrong: artefacts and the description are not there either."""
    parts = parts_of(sent[0])
    last = sorted(name for name in parts if name.startswith("artefacts/"))[-1]
    refused(there, packed(tmp_path / "hostile.zip", {**parts, last: b"other"}), "damaged")
    too_large = {**parts, "application/application.yaml": b"#" * (17 * MIB)}
    refused(there, packed(tmp_path / "hostile.zip", too_large), "larger than")


def test_a_part_twice(there: Place, sent: tuple[Path, Study], tmp_path: Path) -> None:
    path = packed(tmp_path / "hostile.zip", parts_of(sent[0]))
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("application/compose.yaml", b"services: {}")
    refused(there, path, "twice")


def test_a_link(there: Place, sent: tuple[Path, Study], tmp_path: Path) -> None:
    path = packed(tmp_path / "hostile.zip", parts_of(sent[0]))
    link = zipfile.ZipInfo("application/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(link, "/etc/passwd")
    refused(there, path, "is a link")


def test_a_list_of_parts_that_is_longer_than_any(there: Place, sent: tuple[Path, Study], tmp_path: Path) -> None:
    path = tmp_path / "hostile.zip"
    with zipfile.ZipFile(path, "w") as file:
        for number in range(110_000):
            file.writestr(f"artefacts/{number:064x}", b"")
    refused(there, path, "list of parts|parts; allowed")


def test_two_million_brackets(there: Place, tmp_path: Path) -> None:
    refused(there, packed(tmp_path / "hostile.zip", {"study.json": b"[" * 1_000_000 + b"]" * 1_000_000}), "study.json")
    values = b'{"format": [' + b"1," * (MOST_VALUES + 1) + b"1]}"
    refused(there, packed(tmp_path / "hostile.zip", {"study.json": values}), "values")


def test_the_headers_of_a_part_are_not_believed(there: Place, sent: tuple[Path, Study], tmp_path: Path) -> None:
    """The list of parts says 10 bytes; there are more."""
    path = packed(tmp_path / "hostile.zip", {"study.json": b"0" * (DOCUMENT_BYTES + MIB)})
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 10)
    path.write_bytes(bytes(data))
    refused(there, path, "study.json")


def table(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer, compression="zstd")
    return buffer.getvalue()


def latencies(count: int, latency: Any = None) -> dict[str, Any]:
    zeros = np.zeros(count, np.int32)
    return {
        "trial": zeros + np.int32(1), "repetition": zeros, "attempt": zeros,
        "latency_ms": np.zeros(count, np.float32) if latency is None else latency,
    }  # fmt: skip


TABLES: dict[str, Callable[[], bytes]] = {
    "too many rows": lambda: table(**latencies(MOST_ROWS + 1)),
    "one column less": lambda: table(trial=[1], repetition=[0], attempt=[0]),
    "one column more": lambda: table(**latencies(1), other=["x"]),
    "text": lambda: table(**latencies(1, latency=["x"])),
    "lists": lambda: table(**latencies(1, latency=[[1.0]])),
    "64 bits": lambda: table(**latencies(1) | {"trial": np.ones(1, np.int64)}),
    "nothing": lambda: table(**latencies(2, latency=pa.array([1.0, None], pa.float32()))),
    "windows in pieces": lambda: table(**latencies(3) | {"attempt": np.array([0, 1, 0], np.int32)}),
    "no table": lambda: b"PAR1" + b"\0" * 100 + b"PAR1",
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_no_export_writes(there: Place, sent: tuple[Path, Study], tmp_path: Path, name: str) -> None:
    parts = parts_of(sent[0]) | {"latencies.parquet": TABLES[name]()}
    refused(there, packed(tmp_path / "hostile.zip", parts), "latencies.parquet cannot be read")


def bomb(name: str) -> tuple[dict[str, bytes], str]:
    """A file whose small parts would unpack to gigabytes, and the refusal that is expected."""
    if name == "one part":
        return {"study.json": b" " * (600 * MIB)}, "larger than"
    if name == "an artefact":
        return {"artefacts": b"\0" * (300 * MIB)}, "larger than"
    if name == "60 million rows":
        return {"latencies.parquet": table(**latencies(60_000_000))}, "rows"
    if name == "one page":
        buffer = io.BytesIO()
        columns = latencies(MOST_ROWS)
        parquet.write_table(
            pa.table(columns), buffer, compression="zstd", use_dictionary=False,
            data_page_size=2**30, row_group_size=MOST_ROWS, max_rows_per_page=MOST_ROWS,
        )  # fmt: skip
        return {"latencies.parquet": buffer.getvalue()}, f"a page of .*{PAGE_BYTES}"
    return {"latencies.parquet": table(**latencies(MOST_ROWS))}, ""  # the largest that is allowed


MEASURE = """
import sys
from pathlib import Path
from experiments.peak_memory import peak_bytes
from framework.errors import InputError
from tests.unit.test_sharing import Place

place = Place(Path(sys.argv[1]))
before = peak_bytes()
try:
    place.sharing.unpack(Path(sys.argv[2]))
    said = "taken in"
except InputError as error:
    said = str(error)
print((peak_bytes() - before) // 2**20)
print(said)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one part", "an artefact", "60 million rows", "one page", "the largest"])
def test_a_file_takes_a_bounded_memory(sent: tuple[Path, Study], tmp_path: Path, name: str) -> None:
    parts = parts_of(sent[0])
    made, said = bomb(name)
    if "artefacts" in made:
        made = {next(part for part in parts if part.startswith("artefacts/")): made["artefacts"]}
    path = packed(tmp_path / "hostile.zip", {**parts, **made})
    parts.clear()
    made.clear()
    assert path.stat().st_size < 10 * MIB
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "there"), str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    used, answer = done.stdout.splitlines()[:2]
    assert int(used) < MOST_MEMORY_MIB, answer
    assert (answer == "taken in") == (not said), answer


def test_a_digest_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    kept = FileArtefacts(tmp_path / "artefacts")
    digest = kept.put(b"data")
    assert kept.get(digest) == b"data"
    for text in ("../secret", "/etc/passwd", "", "..", digest.upper(), digest + "\n", f"{digest}/..", "a\0b"):
        with pytest.raises(NotFound):
            kept.get(text)


def test_an_imported_study_has_its_application_where_it_lies_here(
    there: Place, sent: tuple[Path, Study], tmp_path: Path
) -> None:
    study = there.sharing.unpack(sent[0])
    home = there.sharing.home / IMPORTED
    assert there.tailor.store.get(study.id).directory == home / study.id / "small"
    assert sorted(path.name for path in (home / study.id / "small").iterdir())[0] == "application.yaml"
    assert not [path for path in home.iterdir() if path.name.startswith(".")], "nothing is left aside"
    there.tailor.studies.delete(study.id)
    assert not (home / study.id).exists(), "it leaves with its study"
    parts = {name: data for name, data in parts_of(sent[0]).items() if not name.startswith("application/")}
    without = there.sharing.unpack(packed(tmp_path / "without.zip", parts))
    assert without.directory == home / study.id / "small", "also where nothing came: never where the file says"
    there.tailor.studies.delete(study.id)
    (home / study.id).mkdir()
    (home / study.id / "old").write_text("of a version that left it")
    there.sharing.unpack(sent[0])
    assert [path.name for path in (home / study.id).iterdir()] == ["small"]
    there.tailor.studies.delete(study.id)
    named = there.sharing.unpack(sent[0], SMALL)
    assert named.directory == SMALL
    assert not (home / study.id).exists()


def test_where_its_place_cannot_be_written_nothing_is_left(there: Place, sent: tuple[Path, Study]) -> None:
    (there.sharing.home / IMPORTED / sent[1].id).write_text("a file where its directory would be")
    with pytest.raises(StoreError, match="cannot write"):
        there.sharing.unpack(sent[0])
    with pytest.raises(NotFound):
        there.tailor.store.get(sent[1].id)
