"""Cache of answers that take long: computed in a child process, once for all requests that ask the same question.

A request that waits for an answer holds no thread, so that everything else is answered meanwhile.  The number of
questions that are waited for is bounded.
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

LIMIT_S = 120.0  # for one answer; a figure may take long beside a measurement, which has a higher priority
CACHE_BYTES = 64 * 2**20
TTL_S = 600.0  # even where the study did not change: files that an answer shows may have changed
RUNNING_TTL_S = 30.0  # for a study that runs, so that watching it costs little beside measuring
STALE_AFTER_S = 5.0  # of waiting for a new answer, after which a stale one is given
MOST = 32  # questions that are waited for
MOST_PER_CALLER = 8  # of them, that one caller asked first
MOST_LEFT = 280 * 2**20  # bytes of memory that the process may have after an answer; it starts with 200 MiB
ENTRY_BYTES = 1024  # that the cache needs for an answer beside the answer's own bytes
RETRY_AFTER_S = 60.0  # during which a question that took too long is not tried again
IDLE_S = 1_800.0  # without a question, after which the process is ended


@dataclass(frozen=True, slots=True)
class _Cached:
    revision: Revision
    at: float
    answer: bytes


@dataclass(slots=True)
class _Flight:
    """A question that is being answered; ``caller`` asked it first."""

    question: Question
    caller: str
    future: asyncio.Future[_Cached]


class Rendering:
    """The cache and the process (``child``) of one event loop.  ``revision`` returns that of a study in the store."""

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
        self._cache: OrderedDict[Question, _Cached] = OrderedDict()
        self._bytes = 0  # of the cache
        self._timed_out: OrderedDict[Question, float] = OrderedDict()  # question -> when it took too long
        self._flights: dict[Question, _Flight] = {}
        self._queue: queue.SimpleQueue[_Flight | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def answer(self, name: str, arguments: Sequence[str], studies: Sequence[Study], caller: str) -> bytes:
        """Return the answer of ``framework.api.answers`` of this name, computed from these studies.

        Raises TailorError and Refused as computing it does.  Raises Refused: 429 where the caller waits for many other
        answers; 503 where all callers do, where the answer takes too long, and where the service ends.
        """
        question = Question(name, tuple(arguments), tuple(study.id for study in studies))
        runs = any(study.state is StudyState.RUNNING for study in studies) or not studies
        revision = await run_in_threadpool(self._revisions, question) if studies else ()
        cached = self._cache.get(question)
        if cached is not None and self._is_fresh(cached, revision, runs):
            self._cache.move_to_end(question)
            return cached.answer
        flight = self._flight(question, caller)
        if cached is not None and runs:  # where measuring keeps the machine busy, a stale answer is better than none
            await asyncio.wait([flight.future], timeout=STALE_AFTER_S)
            if not flight.future.done():
                return cached.answer
        computed = await asyncio.shield(flight.future)
        if computed.revision < revision:  # it was under way already, and had read the store before
            computed = await asyncio.shield(self._flight(question, caller).future)
        return computed.answer

    def close(self) -> None:
        """End the process: requests that wait and all later ones are refused."""
        self._closed = True
        self.child.close()
        self._queue.put(None)
        for flight in list(self._flights.values()):
            self._settle(flight, _service_ends())

    # ------------------------------------------------------------------ in the event loop

    def _revisions(self, question: Question) -> Revision:
        return tuple(self._revision(study) for study in question.studies)

    def _is_fresh(self, cached: _Cached, revision: Revision, runs: bool) -> bool:
        age = self._now() - cached.at
        return age < RUNNING_TTL_S if runs else age < TTL_S and cached.revision == revision

    def _flight(self, question: Question, caller: str) -> _Flight:
        """Return the flight that is under way for this question, or a new one.  Raises Refused: 429, 503."""
        flight = self._flights.get(question)
        if flight is not None:
            return flight
        if self._closed:
            raise _service_ends()
        if self._now() - self._timed_out.get(question, -math.inf) < RETRY_AFTER_S:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "this took too long a moment ago", **AGAIN)
        waiting = Counter(flight.caller for flight in self._flights.values())
        if waiting[caller] >= MOST_PER_CALLER:
            detail = f"{MOST_PER_CALLER} other answers are being computed for you; try again"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, detail, **AGAIN)
        if waiting.total() >= MOST:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST} other answers are being computed", **AGAIN)
        flight = self._flights[question] = _Flight(question, caller, asyncio.get_running_loop().create_future())
        flight.future.add_done_callback(_retrieve_error)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="rendering", daemon=True)
            self._thread.start()
        self._queue.put(flight)
        return flight

    def _settle(self, flight: _Flight, outcome: _Cached | Exception) -> None:
        """Give the outcome to those who wait, and to the cache."""
        self._flights.pop(flight.question, None)
        if flight.future.done():
            return
        if isinstance(outcome, Exception):
            if isinstance(outcome, TookTooLong):
                self._timed_out[flight.question] = self._now()
                if len(self._timed_out) > MOST:
                    self._timed_out.popitem(last=False)
            flight.future.set_exception(outcome)
            return
        flight.future.set_result(outcome)
        self._put(flight.question, outcome)

    def _put(self, question: Question, computed: _Cached) -> None:
        """Put an answer into the cache, which loses the one that was used least recently."""
        before = self._cache.pop(question, None)
        self._bytes -= _size(before) if before is not None else 0
        if _size(computed) > CACHE_BYTES // 4:  # one large answer must not push all others out
            return
        self._cache[question] = computed
        self._bytes += _size(computed)
        while self._bytes > CACHE_BYTES:
            _, oldest = self._cache.popitem(last=False)
            self._bytes -= _size(oldest)

    # ------------------------------------------------------------------ in a thread of its own

    def _work(self) -> None:
        while True:
            try:
                flight = self._queue.get(timeout=IDLE_S)
            except queue.Empty:
                self.child.end()
                continue
            if flight is None:
                self.child.end()
                return
            outcome = self._outcome(flight.question)
            with suppress(RuntimeError):  # the loop has ended, and with it the requests that waited
                flight.future.get_loop().call_soon_threadsafe(self._settle, flight, outcome)

    def _outcome(self, question: Question) -> _Cached | Exception:
        at = self._now()
        try:
            revision, answer = self.child.ask(question, self._limit_s)
        except Exception as error:
            if self._closed:
                return _service_ends()
            if isinstance(error, Refused) and error.status is HTTPStatus.SERVICE_UNAVAILABLE:
                LOG.warning("an answer was not computed", extra={"question": question.name, "why": error.detail})
            return error
        return _Cached(revision, at, answer)


def _size(cached: _Cached) -> int:
    return len(cached.answer) + ENTRY_BYTES


def _retrieve_error(future: asyncio.Future[_Cached]) -> None:
    """Keep asyncio from logging an error that nobody waits for any more."""
    if not future.cancelled():
        future.exception()


def _service_ends() -> Refused:
    return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "the service ends", **{"Retry-After": "10"})
