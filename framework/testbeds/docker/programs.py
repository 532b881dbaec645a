"""Programs that run in a container: the words that commands begin with, and whether Go built an executable."""

from __future__ import annotations

import mmap
import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path

from framework.model import Container
from framework.ports.testbed import GO_PROGRAM
from framework.testbeds.docker.engine import Engine

WORDS = 4  # of a command line: interpreter, options, script
GO_MARK = b"\xff Go buildinf:"
"""Begins the build information that Go puts into every executable (Go, debug/buildinfo)."""


def programs_of(engine: Engine, container: Container, proc: Path = Path("/proc")) -> Sequence[str]:
    """Return the base names of the first words of a container's command lines, and GO_PROGRAM where Go built one."""
    names: list[str] = []
    for number, line in engine.processes(container.id):
        names += _names(line)
        if _is_go(proc, number, container.id):
            names.append(GO_PROGRAM)
    return tuple(dict.fromkeys(names))


def _names(line: str) -> Iterator[str]:
    for word in line.split()[:WORDS]:
        if not word.startswith("-"):
            yield posixpath.basename(word.rstrip(":"))


def _is_go(proc: Path, number: int, container: str) -> bool:
    """Return whether Go built a process's executable; False where the engine is on another machine."""
    try:
        if container not in (proc / str(number) / "cgroup").read_text():
            return False
        with (
            (proc / str(number) / "exe").open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
        ):
            return text.find(GO_MARK) >= 0
    except (OSError, ValueError):
        return False
