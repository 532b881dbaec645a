"""Answers that take long: asked of a process of their own, once for all who ask the same, and kept for a while.

Who waits for one holds no thread, so that everything else is answered meanwhile; how many may be waited for is bounded.
"""

from __future__ import annotations

import asyncio
import logging
import math
import queue
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from fastapi.concurrency import run_in_threadpool

from framework.api.child import AGAIN, Child, Question, Revision, TookTooLong
from framework.api.problems import Refused
from framework.config.settings import Settings
from framework.model import Study, StudyState

LOG = logging.getLogger("tailor.api")

LIMIT_S = 120.0  # of one answer; beside a measurement, which goes first, a figure may take long
KEPT_BYTES = 64 * 2**20
KEPT_S = 600.0  # also where nothing happened to the study: files that an answer shows may have changed
BESIDE_S = 30.0  # of a study that runs an answer may be as old, so that looking at it costs little beside measuring
OLDER_S = 5.0  # so long is waited for a newer one before the older one is given
MOST = 32  # different questions that are waited for
MOST_OF_ONE = 8  # of them, that one caller asked
MOST_LEFT = 280 * 2**20  # of memory that the process has after an answer; it begins with 200 MiB
ENTRY_BYTES = 1024  # that an answer takes besides its own
GIVEN_UP_S = 60.0  # so long what took too long is not tried again
IDLE_S = 1_800.0  # without a question, after which the process ends


@dataclass(frozen=True, slots=True)
class _Kept:
    revision: Revision
    at: float
    answer: bytes


@dataclass(slots=True)
class _Flight:
    """A question that is being answered, asked first by ``caller``."""

    question: Question
    caller: str
    future: asyncio.Future[_Kept]


class Rendering:
    """``revision``: of a study, from the store.  ``child``: who computes.  For one event loop."""

    def __init__(
        self,
        settings: Settings,
        revision: Callable[[str], tuple[int, int]],
        *,
        limit_s: float = LIMIT_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.child = Child(settings, most_left=MOST_LEFT)
        self._revision, self._limit_s, self._now = revision, limit_s, now
        self._kept: OrderedDict[Question, _Kept] = OrderedDict()
        self._bytes = 0  # of them
        self._given_up: OrderedDict[Question, float] = OrderedDict()  # and when
        self._flights: dict[Question, _Flight] = {}
        self._asked: queue.SimpleQueue[_Flight | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def answer(self, name: str, arguments: Sequence[str], studies: Sequence[Study], caller: str) -> bytes:
        """The answer of ``framework.api.answers`` of this name, computed from these studies.

        Raises TailorError and Refused as computing it does; Refused: 429 where this caller waits for many others, 503
        where all do, where it takes too long, and where the service ends.
        """
        question = Question(name, tuple(arguments), tuple(study.id for study in studies))
        runs = any(study.state is StudyState.RUNNING for study in studies) or not studies
        revision = await run_in_threadpool(self._revisions, question) if studies else ()
        known = self._kept.get(question)
        if known is not None and self._good(known, revision, runs):
            self._kept.move_to_end(question)
            return known.answer
        flight = self._flight(question, caller)
        if known is not None and runs:  # of a machine that measuring keeps busy, an older one is better than none
            await asyncio.wait([flight.future], timeout=OLDER_S)
            if not flight.future.done():
                return known.answer
        found = await asyncio.shield(flight.future)
        if found.revision < revision:  # it was under way already, and had read the store before
            found = await asyncio.shield(self._flight(question, caller).future)
        return found.answer

    def close(self) -> None:
        """Whoever waits is refused, and nothing is computed any more."""
        self._closed = True
        self.child.close()
        self._asked.put(None)
        for flight in list(self._flights.values()):
            self._settle(flight, _ends())

    # ------------------------------------------------------------------ in the event loop

    def _revisions(self, question: Question) -> Revision:
        return tuple(self._revision(study) for study in question.studies)

    def _good(self, known: _Kept, revision: Revision, runs: bool) -> bool:
        age = self._now() - known.at
        return age < BESIDE_S if runs else age < KEPT_S and known.revision == revision

    def _flight(self, question: Question, caller: str) -> _Flight:
        """The one that is under way for this question, or a new one.  Raises Refused: 429, 503."""
        known = self._flights.get(question)
        if known is not None:
            return known
        if self._closed:
            raise _ends()
        if self._now() - self._given_up.get(question, -math.inf) < GIVEN_UP_S:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "this took too long a moment ago", **AGAIN)
        waiting = Counter(one.caller for one in self._flights.values())
        if waiting[caller] >= MOST_OF_ONE:
            said = f"{MOST_OF_ONE} other answers are being computed for you; try again"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, said, **AGAIN)
        if waiting.total() >= MOST:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST} other answers are being computed", **AGAIN)
        made = self._flights[question] = _Flight(question, caller, asyncio.get_running_loop().create_future())
        made.future.add_done_callback(_seen)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="rendering", daemon=True)
            self._thread.start()
        self._asked.put(made)
        return made

    def _settle(self, flight: _Flight, found: _Kept | Exception) -> None:
        self._flights.pop(flight.question, None)
        if flight.future.done():
            return
        if isinstance(found, Exception):
            if isinstance(found, TookTooLong):
                self._given_up[flight.question] = self._now()
                if len(self._given_up) > MOST:
                    self._given_up.popitem(last=False)
            flight.future.set_exception(found)
            return
        flight.future.set_result(found)
        self._keep(flight.question, found)

    def _keep(self, question: Question, found: _Kept) -> None:
        before = self._kept.pop(question, None)
        self._bytes -= _size(before) if before is not None else 0
        if _size(found) > KEPT_BYTES // 4:  # one alone shall not push all others out
            return
        self._kept[question] = found
        self._bytes += _size(found)
        while self._bytes > KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)

    # ------------------------------------------------------------------ in a thread of its own

    def _work(self) -> None:
        while True:
            try:
                flight = self._asked.get(timeout=IDLE_S)
            except queue.Empty:
                self.child.end()
                continue
            if flight is None:
                self.child.end()
                return
            found = self._computed(flight.question)
            with suppress(RuntimeError):  # the loop has ended, and with it who waited
                flight.future.get_loop().call_soon_threadsafe(self._settle, flight, found)

    def _computed(self, question: Question) -> _Kept | Exception:
        at = self._now()
        try:
            revision, answer = self.child.ask(question, self._limit_s)
        except Exception as error:
            if self._closed:
                return _ends()
            if isinstance(error, Refused) and error.status is HTTPStatus.SERVICE_UNAVAILABLE:
                LOG.warning("an answer was not computed", extra={"question": question.name, "why": error.detail})
            return error
        return _Kept(revision, at, answer)


def _size(kept: _Kept) -> int:
    return len(kept.answer) + ENTRY_BYTES


def _seen(future: asyncio.Future[_Kept]) -> None:
    """An error is not lost where nobody waits any more."""
    if not future.cancelled():
        future.exception()


def _ends() -> Refused:
    return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "the service ends", **{"Retry-After": "10"})
