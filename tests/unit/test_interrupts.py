"""A guard that is told to end while the engine starts a job waits for the answer: see ``interrupts_deferred``."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import pytest

from framework.model.batch_job import BatchJob, JobSeen, JobSpec
from framework.testbeds.host.cgroups import Cgroups
from framework.testbeds.host.guarded_groups import GuardedGroups
from framework.testbeds.host.interrupts import interrupts_deferred
from framework.testbeds.host.journal import Journal, JournalledFiles, boot_id, undo_of_files
from framework.testbeds.host.thawing_runner import ThawingRunner
from framework.testing.pretend_cgroups import PretendKernel


def interrupted(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def signum(request: pytest.FixtureRequest) -> Iterator[int]:
    number: int = request.param
    before = signal.signal(number, interrupted)
    yield number
    signal.signal(number, before)


def test_an_interrupt_comes_when_the_block_is_done(signum: int) -> None:
    done = []

    def work() -> None:
        with interrupts_deferred():
            os.kill(os.getpid(), signum)
            done.append(signal.getsignal(signum) is not interrupted)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [True]
    assert signal.getsignal(signum) is interrupted


def test_an_error_of_the_block_stays_without_an_interrupt() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="refused"), interrupts_deferred():
        raise ValueError("refused")
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_threads_have_nothing_to_hold() -> None:
    before = signal.getsignal(signal.SIGTERM)
    inside = []

    def work() -> None:
        with interrupts_deferred():
            inside.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [before]


class Interrupted:
    """Runner whose engine gets a signal to its client in the middle of a start."""

    def __init__(self, signum: int) -> None:
        self._signum = signum
        self.began: list[str] = []

    def start(self, job: BatchJob) -> None:
        os.kill(os.getpid(), self._signum)
        self.began.append(job.container)

    def look(self) -> Sequence[JobSeen]:
        return ()

    def save_output(self, container: str, target: Path) -> None:
        raise NotImplementedError

    def remove(self, containers: Collection[str]) -> None:
        raise NotImplementedError

    def numbers(self) -> Mapping[str, str]:
        return {}

    def processes(self) -> Mapping[str, tuple[str, int]]:
        return {}


def test_a_start_is_not_broken_off(signum: int, tmp_path: Path) -> None:
    kernel = PretendKernel(2)
    journal = Journal(tmp_path / "journal.jsonl", boot_id(kernel), undo_of_files(kernel))
    groups = GuardedGroups(Cgroups(kernel), JournalledFiles(kernel, journal), dict, dict)
    runner = Interrupted(signum)
    job = BatchJob(1, JobSpec("job", "image", ("true",), "kind"))
    with pytest.raises(KeyboardInterrupt):
        ThawingRunner(runner, groups).start(job)
    assert runner.began == [job.container]
