"""What several threads ask for at the same time is answered together, as databases commit groups of transactions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class _Waiting(Generic[Asked, Answer]):
    """One caller's question, and its answer once there is one."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.answers: list[Answer | BaseException] = []  # none or one


class GroupCommit(Generic[Asked, Answer]):
    """Callable by many threads: while one of them works, the questions of the others pile up for the next.

    ``work`` gets questions in the order in which they came and gives an answer, or an error to be raised, for each;
    it is never called by two threads at a time.
    """

    def __init__(self, work: Callable[[Sequence[Asked]], Sequence[Answer | Exception]]) -> None:
        self._work = work
        self._waiting: list[_Waiting[Asked, Answer]] = []
        self._guard = threading.Lock()  # of the list
        self._turn = threading.Lock()

    def __call__(self, asked: Asked) -> Answer:
        """Raises what ``work`` gave or raised; an error that it raised is everybody's who was in it."""
        mine: _Waiting[Asked, Answer] = _Waiting(asked)
        with self._guard:
            self._waiting.append(mine)
        with self._turn:
            if not mine.answers:
                with self._guard:
                    batch, self._waiting = self._waiting, []
                self._settle(batch)
        [answer] = mine.answers
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _settle(self, batch: Sequence[_Waiting[Asked, Answer]]) -> None:
        try:
            answers = self._work([one.asked for one in batch])
        except BaseException as error:  # also of an interrupted thread: nobody waits for ever
            for one in batch:
                one.answers.append(error)
            return
        for one, answer in zip(batch, answers, strict=True):
            one.answers.append(answer)
