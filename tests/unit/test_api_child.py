"""A process that computes answers: its priority, its end, and the errors that come through."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from framework import errors
from framework.api import child
from framework.api.child import NICE, Child, Question
from framework.api.problems import Refused
from framework.bootstrap.adapters import Opened, opened
from framework.config.settings import Settings
from tests.serving import PATIENCE_S
from tests.unit.test_api_rendering import external


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_environment({"TAILOR_HOME": str(tmp_path)})


@pytest.fixture
def kept(settings: Settings) -> Iterator[Opened]:
    adapters = opened(settings)
    yield adapters
    adapters.close()


def asked(child: Child, name: str, *arguments: str, studies: Sequence[str] = (), limit_s: float = PATIENCE_S) -> bytes:
    return child.ask(Question(name, arguments, tuple(studies)), limit_s)[1]


def test_the_process_has_the_lowest_priority_and_is_replaced(settings: Settings, kept: Opened) -> None:
    study = external(kept).id
    made = Child(settings)
    try:
        revision, answer = made.ask(Question("external", (study,), (study,)), PATIENCE_S)
        assert (revision, b"<table>" in answer) == ((kept.store.revision(study),), True)
        first = made.pid
        assert first is not None
        assert os.getpriority(os.PRIO_PROCESS, first) == NICE
        os.kill(first, signal.SIGINT)
        asked(made, "external", study)
        assert made.pid == first, "Ctrl-C is for its parent"
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(Refused, match="longer than"):
            asked(made, "external", study, limit_s=0.2)
        assert asked(made, "external", study) == answer
        second = made.pid
        assert second not in (first, None)
        os.kill(second or 0, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(Refused):  # only the question that meets the dying process is refused
                assert asked(made, "external", study) == answer
                break
        assert made.pid not in (second, None)
    finally:
        made.end()
    assert made.pid is None


def test_a_process_that_dies_meanwhile(settings: Settings, kept: Opened) -> None:
    study = external(kept).id
    made = Child(settings)
    try:
        asked(made, "external", study)
        pid = made.pid or 0
        os.kill(pid, signal.SIGSTOP)
        killing = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
        killing.start()
        with pytest.raises(Refused, match="could not be computed") as refused:
            asked(made, "external", study)
        killing.join()
        assert refused.value.status == 503
        assert asked(made, "external", study)
    finally:
        made.end()


def test_a_process_that_keeps_much_memory_ends(settings: Settings, kept: Opened) -> None:
    study = external(kept).id
    small, large = Child(settings, most_left=2**40), Child(settings, most_left=2**20)
    try:
        answers = {asked(child, "external", study) for child in (small, large, small, large)}
        assert len(answers) == 1
        assert small.pid is not None
        assert large.pid is None
    finally:
        small.end()
        large.end()


def test_a_closed_process_is_gone(settings: Settings, kept: Opened) -> None:
    made = Child(settings)
    asked(made, "external", external(kept).id)
    pid = made.pid or 0
    made.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_errors_come_through(settings: Settings, kept: Opened) -> None:
    elsewhere = external(kept)
    study = elsewhere.id
    gone = replace(elsewhere, id=f"{study}-0", testbed="twin", plan=replace(elsewhere.plan, application="/gone/mine"))
    kept.store.create(gone)
    made = Child(settings)
    try:
        with pytest.raises(errors.NotFound, match="no study 'nothing'"):
            asked(made, "external", "nothing")
        with pytest.raises(errors.MeasuredElsewhere, match="measured elsewhere"):
            asked(made, "report", study)
        with pytest.raises(errors.FileError) as of_a_file:
            asked(made, "report", gone.id)
        assert of_a_file.value.file.endswith("/mine")
        with pytest.raises(child.Bug, match="KeyError"):
            asked(made, "nothing")
        made.close()
        with pytest.raises(Refused, match="could not be computed"):
            asked(made, "external", study)
    finally:
        made.end()


def test_every_error_of_ours_can_be_told() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TailorError)]
    for kind in kinds:
        made = kind.__new__(kind, "said")
        made.__dict__.update(file="f", key="line 1", reasons=("a", "b"))
        again = child._error("error", *child._error_values(made))
        assert (type(again), str(again)) == (kind, "said")
        assert vars(again)["key"] == "line 1"
