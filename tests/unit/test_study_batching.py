"""Group commit: calls that arrive at the same time are one batch, and each caller gets its own answer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from framework.study.batching import GroupCommit

CALLERS = 20


class Work:
    """Doubles numbers, slowly for the first batch: it waits until all others have come."""

    def __init__(self) -> None:
        self.batches: list[Sequence[int]] = []
        self.others = threading.Event()

    def __call__(self, asked: Sequence[int]) -> Sequence[int | Exception]:
        self.batches.append(asked)
        assert self.others.wait(60)
        if 13 in asked:
            raise RuntimeError("the whole batch")
        return [ValueError(number) if number == 7 else 2 * number for number in asked]


def answered(numbers: Sequence[int]) -> tuple[list[int | str], Work]:
    """Call with 0 and, while that batch runs, with these numbers; return the answers and the batches."""
    work = Work()
    commit = GroupCommit(work)

    def call(number: int) -> int | str:
        try:
            return commit(number)
        except (ValueError, RuntimeError) as error:
            return str(error)

    with ThreadPoolExecutor(len(numbers) + 1) as callers:
        first = callers.submit(call, 0)
        while not work.batches:
            pass
        others = [callers.submit(call, number) for number in numbers]
        while len(commit._waiting) < len(numbers):
            pass
        work.others.set()
        return [first.result(), *(future.result() for future in others)], work


def test_those_who_wait_are_answered_in_one_go() -> None:
    numbers = [number for number in range(1, CALLERS) if number != 13]
    answers, work = answered(numbers)
    assert answers == [0, *("7" if number == 7 else 2 * number for number in numbers)]
    assert [len(batch) for batch in work.batches] == [1, len(numbers)]


def test_an_error_of_the_work_is_everybodys() -> None:
    answers, _ = answered([12, 13, 14])
    assert answers == [0] + ["the whole batch"] * 3


def test_one_after_the_other() -> None:
    call: GroupCommit[int, int] = GroupCommit(lambda asked: [number + 1 for number in asked])
    assert [call(number) for number in range(5)] == [1, 2, 3, 4, 5]


def test_an_interruption_reaches_the_caller() -> None:
    def work(asked: Sequence[int]) -> Sequence[int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GroupCommit(work)(1)
