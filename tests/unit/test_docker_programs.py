"""Programs of a container: the words of its command lines, and executables that Go built."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from framework.model import Container
from framework.ports.testbed import GO_PROGRAM
from framework.testbeds.docker.programs import GO_MARK, programs_of

ID = "0123456789abcdef"


class Processes:
    """An engine that lists these command lines, numbered from 1."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines

    def processes(self, container: str) -> Sequence[tuple[int, str]]:
        return list(enumerate(self.lines, 1))


def programs(proc: Path, *lines: str) -> Sequence[str]:
    container = Container("app", ID, "shop-app-1", "me/app", "", "", 1, "")
    return programs_of(cast(Any, Processes(*lines)), container, proc)


def test_the_first_words_of_command_lines_are_names(tmp_path: Path) -> None:
    lines = (
        "/usr/bin/tini -- /opt/run.sh",
        "/venv/bin/python3 /venv/bin/gunicorn --bind=:80 a:b",
        "nginx: worker process",
    )
    names = programs(tmp_path, *lines)
    assert [name for name in names if name in ("tini", "python3", "gunicorn", "nginx")] == [
        "tini", "python3", "gunicorn", "nginx",
    ]  # fmt: skip
    assert GO_PROGRAM not in names


def test_an_executable_says_that_go_built_it(tmp_path: Path) -> None:
    for number, (cgroup, text) in enumerate(
        [(f"0::/docker/{ID}", b"\x7fELF" + GO_MARK), ("0::/docker/another", GO_MARK), (f"0::/docker/{ID}", b"\x7fELF")],
        1,
    ):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "cgroup").write_text(cgroup)
        (directory / "exe").write_bytes(text)
    assert programs(tmp_path, "own") == ("own", GO_PROGRAM)
    assert programs(tmp_path, "", "own") == (GO_PROGRAM, "own"), "the first process's"
    (tmp_path / "1" / "exe").write_bytes(b"")
    assert programs(tmp_path, "own", "another", "third") == ("own", "another", "third"), "another container's, or none"
