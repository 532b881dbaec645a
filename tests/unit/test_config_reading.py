"""Every reader of a user's file takes a regular file of a bounded size, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from framework.benchmark.races import read, replayed
from framework.compose.files import mounted
from framework.config.application import load_application
from framework.config.bottlenecks_file import load_bottlenecks
from framework.config.configuration_file import load_configuration
from framework.config.knowledge import load_service_type
from framework.config.reading import CONFIGURATION_BYTES, MIB, open_regular, read_bytes, read_text
from framework.config.results_file import load_results
from framework.config.twin_file import load_twin, twin_digest, twin_path
from framework.config.workload_content import load_workload_document
from framework.errors import FileError, TailorError
from framework.placement.space import load_profile
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from framework.traces.files import read_all
from framework.twin.calibration.data import read_evidence
from optimizer.space import Parameter, SearchSpace
from tests.fakes import pretend_tailor

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"
SPACE = SearchSpace([Parameter("a.x", "real", 0.5, low=0.0, high=1.0)])


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.mkdir()


KINDS = {"a device": device, "a pipe": pipe, "a directory": directory}

READERS: dict[str, Callable[[Path], Any]] = {
    "bytes": read_bytes,
    "text": read_text,
    "results": load_results,
    "workload": load_workload_document,
    "service type": load_service_type,
    "twin": load_twin,
    "configuration": partial(load_configuration, space=SPACE),
    "bottlenecks": partial(load_bottlenecks, space=SPACE),
    "profile": lambda path: load_profile(path, load_application(SMALL)),
    "evidence": read_evidence,
    "record": replayed,
    "runs": lambda path: list(read(path)),
    "mounted file": lambda path: mounted("web", [f"{path}:/etc/web.conf:ro"], "/etc/web.conf"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_regular_file_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / "file"
    KINDS[kind](path)
    with pytest.raises(TailorError, match="not a regular file"):
        READERS[name](path)


@pytest.mark.parametrize("name", READERS)
def test_what_is_too_large_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(2**40)  # a hole: it takes no room on the disk
    with pytest.raises(TailorError, match="a larger file"):
        READERS[name](path)


@pytest.mark.parametrize("part", ["application.yaml", "compose.yaml", "workload.yaml", "other"])
@pytest.mark.parametrize("kind", ["a pipe", "a directory"])
def test_a_part_of_an_application_that_is_no_regular_file(tmp_path: Path, part: str, kind: str) -> None:
    shutil.copytree(SMALL, tmp_path / "small")
    path = tmp_path / "small" / part
    path.unlink(missing_ok=True)
    KINDS[kind](path)
    if (part, kind) == ("other", "a directory"):
        load_application(tmp_path / "small")
        return
    with pytest.raises(FileError):
        load_application(tmp_path / "small")


def test_a_twin_that_is_no_regular_file(tmp_path: Path) -> None:
    pipe(twin_path(tmp_path))
    with pytest.raises(FileError, match="not a regular file"):
        twin_digest(tmp_path)


def test_traces_that_are_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "directory.json").mkdir()
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(2**40)
    traces = read_all([str(tmp_path)], workers=1)
    assert len(traces.unreadable) == 4
    assert sum("not a regular file" in why for why in traces.unreadable.values()) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_study_that_is_no_regular_file(tmp_path: Path, kind: str) -> None:
    tailor, _ = pretend_tailor(tmp_path, PretendMachine(VirtualClock(), lambda configuration: 10.0))
    sharing = tailor.sharing
    KINDS[kind](tmp_path / "study.zip")
    with pytest.raises(FileError, match="not a regular file"):
        sharing.unpack(tmp_path / "study.zip")
    tailor.close()


def test_a_file_that_is_missing_or_has_no_name(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        read_bytes(tmp_path / "nothing")
    with pytest.raises(FileError, match="readable"):
        read_bytes(Path("a\0b"))


def test_the_size_is_counted_and_not_believed(tmp_path: Path) -> None:
    """Files of /proc have a size of 0 and content all the same."""
    assert b"Name:" in read_bytes(Path("/proc/self/status"))
    with pytest.raises(FileError, match="a larger file"):
        read_bytes(Path("/proc/self/status"), 10)
    (tmp_path / "most").write_bytes(b"x" * MIB)
    assert len(read_bytes(tmp_path / "most", MIB)) == MIB
    with open_regular(tmp_path / "most") as file:
        assert file.read(1) == b"x"
    assert CONFIGURATION_BYTES == 16 * MIB
