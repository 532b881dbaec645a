"""Asks and tells of large spaces, answered in a process of their own.

An optimizer of thousands of parameters computes for seconds and leaves so many objects behind that one look of the
garbage collector stops its whole process for a second or more.  Beside it, nothing else would be answered in time.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus

from anyio import CapacityLimiter, to_thread

from framework.api.child import AGAIN, Child, Question
from framework.api.problems import Refused
from framework.api.requests import Ask, Tell
from framework.bootstrap.adapters import Opened
from framework.config.settings import Settings
from framework.errors import TailorError
from framework.model import Trial, TrialState
from framework.study.external import External
from framework.study.external_session import TrialResult

LARGE = 500  # parameters: from here on a study is answered in the process of its own
KEPT_PARAMETERS = 5_000  # of the studies whose optimizers that process keeps beside the one that is asked
MOST_BYTES = 256 * 2**20  # that optimizers and answers may take there
NICE = 5  # after what is measured, and before pages
LIMIT_S = 600.0  # of one answer: a long study is replayed with its first
MOST = 40  # that wait for an answer
MOST_OF_ONE = 20  # of them, of one caller
MADE_AT_ONCE = 2  # studies of large spaces, each of which takes some 15 MB while it is made
MOST_MADE = 16  # that wait for it
MOST_MADE_OF_ONE = 8

MOST_VALUES = 20_000  # configurations x parameters of one ask
PART_VALUES = 5_000  # that are asked for before the clock is looked at again
ASK_S = 2.0  # after which an ask gives what it has


def asked(external: External, study: str, body: Ask, parameters: int) -> bytes:
    """The answer to an ask, in several parts where the space is large.  Raises as ``External.ask`` does.

    ``parameters``: how many the study has.
    """
    began = time.monotonic()
    most, part = (max(1, values // parameters) for values in (MOST_VALUES, PART_VALUES))
    found: list[Trial] = []
    while len(found) < min(body.count, most) and (not found or time.monotonic() - began < ASK_S):
        wanted = min(part, body.count - len(found))
        try:
            more = external.ask(study, wanted, body.client, body.lease_s)
        except TailorError:
            if not found:
                raise
            break  # those that are leased already are given
        found += more
        if len(more) < wanted:
            break
    shown = [{"trial": one.number, "configuration": one.configuration.to_dict()} for one in found]
    return encoded({"trials": shown, "lease_s": body.lease_s})


def told(external: External, study: str, body: Tell) -> bytes:
    """The answer to a tell.  Raises as ``External.tell`` does."""
    results: Sequence[TrialResult] = [
        TrialResult(
            one.trial, one.value, one.standard_error, TrialState(one.state), one.reason, one.quantities, one.costs
        )
        for one in body.results
    ]
    external.tell(study, results)
    return encoded({"told": len(results)})


def _ask(kept: Opened, study: str, body: str, parameters: str) -> bytes:
    return asked(kept.external, study, Ask.model_validate_json(body), int(parameters))


def _tell(kept: Opened, study: str, body: str) -> bytes:
    return told(kept.external, study, Tell.model_validate_json(body))


def _leave(kept: Opened, study: str) -> bytes:
    kept.external.leave(study)
    return b""


ASKED: Mapping[str, Callable[..., bytes]] = {"ask": _ask, "tell": _tell, "leave": _leave}
"""By name; each takes what is open, a study and what was sent."""


class Turns:
    """A few at a time; others wait, of whom there are at most ``most``, and ``most_of_one`` of one caller.

    ``what``: names them in a refusal.
    """

    def __init__(self, at_once: int, most: int, most_of_one: int, what: str) -> None:
        self.limiter = CapacityLimiter(at_once)
        self._most, self._most_of_one, self._what = most, most_of_one, what
        self._waiting: Counter[str] = Counter()  # by caller

    @contextmanager
    def waiting(self, caller: str) -> Iterator[None]:
        """For whoever waits for the limiter, or has it.  Raises Refused: 429, 503."""
        if self._waiting[caller] >= self._most_of_one:
            said = f"{self._most_of_one} {self._what} wait for you already"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, said, **AGAIN)
        if self._waiting.total() >= self._most:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"{self._most} {self._what} are waiting", **AGAIN)
        self._waiting[caller] += 1
        try:
            yield
        finally:
            self._waiting[caller] -= 1
            if not self._waiting[caller]:
                del self._waiting[caller]


class Asking:
    """The process that answers, one after the other; who waits for it holds no thread."""

    def __init__(self, settings: Settings) -> None:
        self.child = Child(
            settings, "framework.api.asking:ASKED", nice=NICE, kept_parameters=KEPT_PARAMETERS, most_bytes=MOST_BYTES
        )
        self._turns = Turns(1, MOST, MOST_OF_ONE, "asks and tells of large spaces")

    async def ask(self, study: str, body: Ask, parameters: int, caller: str) -> bytes:
        """As ``asked``.  Raises Refused also: 429, 503, and 422 where it takes too much memory."""
        return await self._answer(caller, "ask", study, body.model_dump_json(), str(parameters))

    async def tell(self, study: str, body: Tell, caller: str) -> bytes:
        """As ``told``.  Raises Refused also: as above."""
        return await self._answer(caller, "tell", study, body.model_dump_json())

    async def leave(self, study: str) -> None:
        """Let the process have nothing to do with a study any more; it waits for its turn.  Raises Refused, 503."""
        if self.child.pid is not None:
            await self._turned(Question("leave", (study,)))

    def close(self) -> None:
        """Whoever waits is refused, and nothing is answered any more."""
        self.child.close()

    async def _answer(self, caller: str, name: str, *arguments: str) -> bytes:
        with self._turns.waiting(caller):
            return await self._turned(Question(name, arguments))

    async def _turned(self, question: Question) -> bytes:
        """Not given up where its client leaves: the next answer would be taken for this one's."""
        _, found = await to_thread.run_sync(self.child.ask, question, LIMIT_S, limiter=self._turns.limiter)
        return found


def encoded(value: object) -> bytes:
    """The body of an answer."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
