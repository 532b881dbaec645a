"""A process that computes answers, of a low priority, so that measurements beside it are not disturbed.

There is one for pages and one for the asks of large spaces.  It is begun with the first question, and anew after it
died or was given up.  It has a store of its own, and ends with the process that began it.
"""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import resource
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from framework import errors
from framework.api.memory import ENVIRONMENT
from framework.api.problems import Refused
from framework.bootstrap.adapters import Opened, opened
from framework.config.settings import Settings
from framework.errors import TailorError
from framework.study.external import KEPT_PARAMETERS

Revision = tuple[tuple[int, int], ...]
"""Of each study of a question, its store's ``revision``."""

Answers = Mapping[str, Callable[..., bytes]]

NICE = 19
REAP_S = 1.0
BEGIN = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who began it, who ends it
from framework.api.child import serve
os.nice(int(sys.argv[2]))  # once loaded: on a machine that is busy that alone would take minutes
serve(int(sys.argv[1]))
"""
TOO_LARGE = "this takes more memory than there is for it; allowed: fewer parameters, or a smaller budget"
AGAIN = {"Retry-After": "10"}


@dataclass(frozen=True, slots=True)
class Question:
    """``name``: one of the process's answers.  ``studies``: ids of those that the answer is computed from."""

    name: str
    arguments: tuple[str, ...] = ()
    studies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """What a process is told first; see Child."""

    settings: Settings
    answers: str
    kept_parameters: int
    most_bytes: int | None


class TookTooLong(Refused):
    """An answer that was given up."""


class Bug(Exception):
    """What the process says of an error that is nobody's but Tailor's: its traceback."""


class Child:
    """Used by one thread at a time; ``end``, ``close`` and ``pid`` by any.

    ``answers``: where its answers are, MODULE:NAME of a mapping from names to functions, which take what is open and a
    question's arguments.  ``nice``: its priority.  ``kept_parameters``: of studies that are measured elsewhere, whose
    optimizers it keeps.  ``most_bytes``: of memory that answers may take; None: any number.  ``most_left``: of memory
    that it may have after an answer; where it has more, it ends, and the next question begins another.
    """

    def __init__(
        self,
        settings: Settings,
        answers: str = "framework.api.answers:ANSWERS",
        *,
        nice: int = NICE,
        kept_parameters: int = KEPT_PARAMETERS,
        most_bytes: int | None = None,
        most_left: int | None = None,
    ) -> None:
        self._most_left = most_left
        self._task = Task(settings, answers, kept_parameters, most_bytes)
        self._nice = nice
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._guard = threading.Lock()
        self._closed = False

    def ask(self, question: Question, limit_s: float) -> tuple[Revision, bytes]:
        """The answer, and of which revision it is.

        Raises what computing it raised (TailorError, Refused), Bug, and Refused (503) where it took longer or the
        process died; the next question finds another process.
        """
        try:
            connection = self._ready()
            connection.send(question)
            if not connection.poll(limit_s):
                self.end()
                raise TookTooLong(HTTPStatus.SERVICE_UNAVAILABLE, f"this took longer than {limit_s:g} s", **AGAIN)
            kind, *said = connection.recv()
        except (EOFError, OSError):
            self.end()
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "this could not be computed; try again", **AGAIN) from None
        if kind == "answer":
            revision, answer = said
            if self._most_left is not None and self._resident() > self._most_left:
                self.end()
            return revision, answer
        if kind == "full":
            self.end()
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, TOO_LARGE)
        raise _error(kind, *said)

    def end(self) -> None:
        """Kill the process; the next question begins another."""
        with self._guard:
            process, connection = self._process, self._connection
            self._process = self._connection = None
            if process is not None:
                process.kill()
                process.wait()
            if connection is not None:
                connection.close()

    def close(self) -> None:
        """Kill the process, at once also where a thread waits for it; there will be no other."""
        with self._guard:
            self._closed = True
            if self._process is not None:
                self._process.kill()
                with suppress(subprocess.TimeoutExpired):  # where the kernel holds it, whoever closes is not held
                    self._process.wait(REAP_S)

    @property
    def pid(self) -> int | None:
        """Of the process; None where there is none."""
        return self._process.pid if self._process is not None else None

    def _resident(self) -> int:
        """The process's memory [bytes]; 0 where it is gone."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()
        except OSError:
            return 0

    def _ready(self) -> Connection:
        """Raises EOFError after ``close``."""
        if self._process is not None and self._process.poll() is not None:
            self.end()
        with self._guard:
            if self._closed:
                raise EOFError
            if self._connection is None:
                self._connection, self._process = _begun(self._nice)
                self._connection.send(self._task)
            return self._connection


def _begun(nice: int) -> tuple[Connection, subprocess.Popen[bytes]]:
    """A new process, and the way to it.

    Not by ``multiprocessing``, which would load the program's main module there too, nor by a fork, which would copy
    locks that other threads hold.
    """
    ours, theirs = multiprocessing.Pipe()
    with theirs:
        path = {"PYTHONPATH": os.pathsep.join(part or str(Path.cwd()) for part in sys.path)}
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", BEGIN, str(theirs.fileno()), str(nice)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | ENVIRONMENT | path,
        )
    return ours, process


def serve(file: int) -> None:
    """Answer questions until the other side is gone: the work of the process.  ``file``: the descriptor to it."""
    connection = Connection(file)
    task: Task = connection.recv()
    answers: Answers = pkgutil.resolve_name(task.answers)
    kept: Opened | None = None
    while True:
        try:
            question = connection.recv()
        except EOFError:
            return
        try:
            if kept is None:
                kept = opened(task.settings, task.kept_parameters)
                _limit_memory(task.most_bytes)
            said: tuple[object, ...] = ("answer", *_answer(kept, answers, question))
        except Refused as error:
            said = ("refused", int(error.status), error.detail)
        except TailorError as error:
            said = ("error", *_told(error))
        except MemoryError:  # what it holds is of no use any more: another process begins anew
            said = ("full",)
        except Exception:
            said = ("bug", traceback.format_exc())
        try:
            connection.send(said)
        except OSError:
            return


def _limit_memory(most_bytes: int | None) -> None:
    """Let this process take only so much more than it has now; beyond it, allocations fail."""
    if most_bytes is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[5])  # of data and stacks, as the limit counts them
        now = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (now + most_bytes, now + most_bytes))


def _answer(kept: Opened, answers: Answers, question: Question) -> tuple[Revision, bytes]:
    revision = tuple(kept.store.revision(study) for study in question.studies)  # first: it is that new at least
    return revision, answers[question.name](kept, *question.arguments)


def _told(error: TailorError) -> tuple[str, Sequence[str], Mapping[str, object]]:
    """(class, arguments, attributes) of an error as plain values: not every error can be pickled."""
    known = next(kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind)
    simple = {
        name: value if isinstance(value, str | int | float | None) else repr(value)
        for name, value in vars(error).items()
    }
    return known, [str(one) for one in error.args], simple


def _error(kind: str, *said: Any) -> Exception:
    """The error that the process told of."""
    if kind == "refused":
        status, detail = said
        return Refused(HTTPStatus(status), detail)
    if kind == "error":
        name, arguments, attributes = said
        known = getattr(errors, name)
        made: TailorError = known.__new__(known, *arguments)
        made.__dict__.update(attributes)
        return made
    return Bug(*said)
