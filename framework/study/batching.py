"""Group commit: questions that several threads ask at the same time are answered in one batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class _Waiting(Generic[Question, Answer]):
    """A caller's question, and its answer once there is one."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.answers: list[Answer | BaseException] = []  # none or one


class GroupCommit(Generic[Question, Answer]):
    """Answers questions in batches: while one thread works, the questions of the others wait for the next batch.

    ``work`` receives questions in the order in which they were asked, and returns an answer, or an error to be raised,
    for each.  Only one thread at a time calls it.
    """

    def __init__(self, work: Callable[[Sequence[Question]], Sequence[Answer | Exception]]) -> None:
        self._work = work
        self._waiting: list[_Waiting[Question, Answer]] = []
        self._guard = threading.Lock()  # of the list
        self._turn = threading.Lock()

    def __call__(self, question: Question) -> Answer:
        """Return the answer.  Raises the error that ``work`` returned; one that it raised reaches the whole batch."""
        mine: _Waiting[Question, Answer] = _Waiting(question)
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

    def _settle(self, batch: Sequence[_Waiting[Question, Answer]]) -> None:
        try:
            answers = self._work([waiting.question for waiting in batch])
        except BaseException as error:  # an interrupt too, so that no caller waits for ever
            for waiting in batch:
                waiting.answers.append(error)
            return
        for waiting, answer in zip(batch, answers, strict=True):
            waiting.answers.append(answer)
