"""The run directory holds exactly what a deployment mounts, and unchanged files stay the same files."""

from __future__ import annotations

import resource
from dataclasses import replace
from pathlib import Path

import pytest

from framework.errors import DeploymentFailed, StoreError
from framework.model import Application
from framework.testbeds.docker.datasets import identity
from framework.testbeds.docker.run_directory import compose_file, write
from tests.testbed_documents import application, deployment, document, wanted_of


def names(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


def test_it_holds_what_is_wanted_and_no_more(tmp_path: Path) -> None:
    home = tmp_path / "run" / "p"
    write(home, {"services": {}}, {"files/a/x": "1", "files/b/y": "2"})
    assert names(home) == {"compose.yaml", "files/a/x", "files/b/y"}
    inode = (home / "files/a/x").stat().st_ino
    write(home, {"services": {}}, {"files/a/x": "1", "files/c/z": "#!/bin/sh\n"})
    assert names(home) == {"compose.yaml", "files/a/x", "files/c/z"}
    assert not (home / "files" / "b").exists()
    assert (home / "files/a/x").stat().st_ino == inode, "a running container mounts this very file"
    assert (home / "files/a/x").stat().st_mode & 0o777 == 0o644
    assert (home / "files/c/z").stat().st_mode & 0o111
    assert compose_file(home).read_text().startswith("services:")


def test_a_directory_that_the_engine_made_for_a_missing_file_gives_way(tmp_path: Path) -> None:
    (tmp_path / "files" / "x").mkdir(parents=True)
    write(tmp_path, {}, {"files/x": "text"})
    assert (tmp_path / "files" / "x").read_text() == "text"


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "files/../../up", "compose.yaml"])
def test_nothing_is_written_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(DeploymentFailed, match="below the deployment's directory"):
        write(tmp_path / "run", {}, {name: "x"})
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write .*file/run: Not a directory.*TAILOR_HOME"):
        write(tmp_path / "file" / "run", {}, {})


def test_a_write_that_fails_half_way_is_named_and_leaves_the_old_file(tmp_path: Path) -> None:
    """As on a full disk: here the system's limit on the size of files ends the write."""
    write(tmp_path, {}, {"files/x": "old"})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(StoreError, match="cannot write"):
            write(tmp_path, {}, {"files/x": "new" * 1000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "files" / "x").read_text() == "old"
    write(tmp_path, {}, {"files/x": "new"})
    assert names(tmp_path) == {"compose.yaml", "files/x"}


def test_a_file_that_a_service_may_write_is_a_copy(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.conf"
    theirs.write_bytes(b"\xff\x00mine")
    theirs.chmod(0o640)
    copies = {"copies/1-theirs.conf": theirs}
    write(tmp_path / "run", {}, {}, copies)
    copy = tmp_path / "run" / "copies" / "1-theirs.conf"
    assert copy.read_bytes() == theirs.read_bytes()
    assert copy.stat().st_mode & 0o777 == 0o640
    copy.write_text("what a service wrote")
    write(tmp_path / "run", {}, {}, copies)
    assert copy.read_bytes() == theirs.read_bytes() == b"\xff\x00mine"
    with pytest.raises(DeploymentFailed, match="cannot be copied"):
        write(tmp_path / "run", {}, {}, {"copies/x": tmp_path / "gone"})
    with pytest.raises(DeploymentFailed, match="cannot be copied"):
        write(tmp_path / "run", {}, {}, {"copies/x": Path("/dev/zero")})


def test_data_are_named_by_what_determines_them(tmp_path: Path) -> None:
    app: Application = application("small", tmp_path, document())
    want = wanted_of(deployment("p", document()))
    ids = {"cache": "1", "store": "2", "seed": "3", "fail": "4"}
    name = identity(app, want, ids, "p")
    assert identity(app, want, {**ids, "cache": "other"}, "p") == name, "it neither writes nor holds data"
    assert identity(app, want, {**ids, "store": "other"}, "p") != name
    assert identity(app, want, {**ids, "seed": "other"}, "p") != name
    assert identity(app, want, ids, "q") == name, "what the hook makes is for all"
    assert len(name) == 12
    (tmp_path / "data").mkdir()
    own = document()
    own["services"]["store"]["volumes"] = [f"{tmp_path}/data:/data"]
    copied = wanted_of(replace(deployment("p", own), roots=(tmp_path,)))
    assert identity(app, copied, ids, "p") != identity(app, copied, ids, "q"), "a copy is as old as its study"
