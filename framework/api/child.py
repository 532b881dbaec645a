"""A child process that computes answers at a low priority, so that it does not disturb measurements beside it.

There is one for pages and one for the asks of large spaces.  It starts with the first question, and again with the next
one after it died or was killed.  It opens the store for itself, and ends with its parent.
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
"""The store's ``revision`` of each study of a question."""

Answers = Mapping[str, Callable[..., bytes]]

NICE = 19
REAP_S = 1.0  # for the kernel to end a process that was killed
PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends it
from framework.api.child import serve
os.nice(int(sys.argv[2]))  # only now: at a low priority, loading would take minutes on a busy machine
serve(int(sys.argv[1]))
"""
TOO_LARGE = "this takes more memory than there is for it; allowed: fewer parameters, or a smaller budget"
AGAIN = {"Retry-After": "10"}


@dataclass(frozen=True, slots=True)
class Question:
    """A call of the function ``name``.  ``studies``: the ids of the studies that the answer is computed from."""

    name: str
    arguments: tuple[str, ...] = ()
    studies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """The first message to a process; its fields are explained at Child."""

    settings: Settings
    answers: str
    kept_parameters: int
    most_bytes: int | None


class TookTooLong(Refused):
    """Computing the answer took longer than its limit."""


class Bug(Exception):
    """Computing the answer failed by a bug of Tailor; the message is its traceback."""


class Child:
    """The process, as its parent sees it: used by one thread at a time; ``end``, ``close`` and ``pid`` by any.

    ``answers``: MODULE:NAME of a mapping from names to functions, which take the open adapters and the question's
    arguments.  ``nice``: its priority.  ``kept_parameters``: of external studies, in all, whose optimizers it keeps.
    ``most_bytes``: the memory that answers may take; None: no limit.  ``most_left``: the memory [bytes] that
    it may have after an answer; where it has more, it is ended, and the next question starts another.
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
        """Return the revision that the answer was computed from, and the answer.

        Raises the error of computing it (TailorError, Refused, Bug), and Refused (503) where it took longer than
        ``limit_s`` or the process died; the next question starts another process.
        """
        try:
            connection = self._ready()
            connection.send(question)
            if not connection.poll(limit_s):
                self.end()
                raise TookTooLong(HTTPStatus.SERVICE_UNAVAILABLE, f"this took longer than {limit_s:g} s", **AGAIN)
            kind, *content = connection.recv()
        except (EOFError, OSError):
            self.end()
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "this could not be computed; try again", **AGAIN) from None
        if kind == "answer":
            revision, answer = content
            if self._most_left is not None and self._resident() > self._most_left:
                self.end()
            return revision, answer
        if kind == "full":
            self.end()
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, TOO_LARGE)
        raise _error(kind, *content)

    def end(self) -> None:
        """Kill the process; the next question starts another."""
        with self._guard:
            process, connection = self._process, self._connection
            self._process = self._connection = None
            if process is not None:
                process.kill()
                process.wait()
            if connection is not None:
                connection.close()

    def close(self) -> None:
        """Kill the process at once, even while a thread waits for it; no other is started."""
        with self._guard:
            self._closed = True
            if self._process is not None:
                self._process.kill()
                with suppress(
                    subprocess.TimeoutExpired
                ):  # the caller does not wait longer where the kernel holds the process
                    self._process.wait(REAP_S)

    @property
    def pid(self) -> int | None:
        """Id of the process; None where there is none."""
        return self._process.pid if self._process is not None else None

    def _resident(self) -> int:
        """Return the resident memory of the process [bytes]; 0 where it is gone."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()
        except OSError:
            return 0

    def _ready(self) -> Connection:
        """Return the connection to the process; start one where there is none.  Raises EOFError after ``close``."""
        if self._process is not None and self._process.poll() is not None:
            self.end()
        with self._guard:
            if self._closed:
                raise EOFError
            if self._connection is None:
                self._connection, self._process = _start(self._nice)
                self._connection.send(self._task)
            return self._connection


def _start(nice: int) -> tuple[Connection, subprocess.Popen[bytes]]:
    """Start a process; return the connection to it, and the process.

    Not by ``multiprocessing``, which would load the program's main module in the child too, nor by a fork, which would
    copy locks that other threads hold.
    """
    ours, theirs = multiprocessing.Pipe()
    with theirs:
        path = {"PYTHONPATH": os.pathsep.join(part or str(Path.cwd()) for part in sys.path)}
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, str(theirs.fileno()), str(nice)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | ENVIRONMENT | path,
        )
    return ours, process


def serve(file: int) -> None:
    """Answer questions until the parent is gone; the process runs this.  ``file``: the descriptor of the connection."""
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
            message: tuple[object, ...] = ("answer", *_answer(kept, answers, question))
        except Refused as error:
            message = ("refused", int(error.status), error.detail)
        except TailorError as error:
            message = ("error", *_error_values(error))
        except MemoryError:  # the parent ends this process: the optimizers in it are of no use any more
            message = ("full",)
        except Exception:
            message = ("bug", traceback.format_exc())
        try:
            connection.send(message)
        except OSError:
            return


def _limit_memory(most_bytes: int | None) -> None:
    """Let allocations fail where this process takes more than ``most_bytes`` beyond its memory now."""
    if most_bytes is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[5])  # data and stacks, as the limit counts them
        now = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (now + most_bytes, now + most_bytes))


def _answer(kept: Opened, answers: Answers, question: Question) -> tuple[Revision, bytes]:
    revision = tuple(
        kept.store.revision(study) for study in question.studies
    )  # read first: the answer is at least as new
    return revision, answers[question.name](kept, *question.arguments)


def _error_values(error: TailorError) -> tuple[str, Sequence[str], Mapping[str, object]]:
    """Return (class, arguments, attributes) of an error as plain values: not every error can be pickled."""
    name = next(kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind)
    simple = {
        attribute: value if isinstance(value, str | int | float | None) else repr(value)
        for attribute, value in vars(error).items()
    }
    return name, [str(argument) for argument in error.args], simple


def _error(kind: str, *content: Any) -> Exception:
    """Return the error that a message of the process describes."""
    if kind == "refused":
        status, detail = content
        return Refused(HTTPStatus(status), detail)
    if kind == "error":
        name, arguments, attributes = content
        kind_of_error = getattr(errors, name)
        error: TailorError = kind_of_error.__new__(kind_of_error, *arguments)
        error.__dict__.update(attributes)
        return error
    return Bug(*content)
