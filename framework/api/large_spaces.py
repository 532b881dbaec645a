"""Asks and tells of large spaces, answered in a process of their own.

An optimizer of thousands of parameters computes for seconds.  It leaves so many objects behind that one run of the
garbage collector stops its whole process for a second or more.  In that process nothing else would be answered in time.
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

LARGE = 500  # parameters; a study with as many or more is answered in the process of its own
KEPT_PARAMETERS = 5_000  # in all, of studies whose optimizers the process keeps beside the current one
MOST_BYTES = 256 * 2**20  # of memory that optimizers and answers may take in the process
NICE = 5  # a lower priority than measurements, a higher one than pages
LIMIT_S = 600.0  # for one answer: the first answer of a study replays all its trials
MOST = 40  # requests that wait for an answer
MOST_PER_CALLER = 20  # of them, from one caller
MADE_AT_ONCE = 2  # studies of large spaces; each takes some 15 MB while it is made
MOST_MADE = 16  # requests that wait to make one
MOST_MADE_PER_CALLER = 8  # of them, from one caller

MOST_VALUES = 20_000  # configurations x parameters of one answer
PART_VALUES = 5_000  # asked of the optimizer at once, before the clock is read again
ASK_S = 2.0  # after which an ask returns the configurations that it has


def ask_answer(external: External, study: str, body: Ask, parameters: int) -> bytes:
    """Return the answer to an ask; a large space is asked in several parts.  Raises as ``External.ask`` does.

    ``parameters``: how many the study has.
    """
    began = time.monotonic()
    most, part = (max(1, values // parameters) for values in (MOST_VALUES, PART_VALUES))
    trials: list[Trial] = []
    while len(trials) < min(body.count, most) and (not trials or time.monotonic() - began < ASK_S):
        wanted = min(part, body.count - len(trials))
        try:
            more = external.ask(study, wanted, body.client, body.lease_s)
        except TailorError:
            if not trials:
                raise
            break  # the trials that are leased already are returned
        trials += more
        if len(more) < wanted:
            break
    shown = [{"trial": trial.number, "configuration": trial.configuration.to_dict()} for trial in trials]
    return json_bytes({"trials": shown, "lease_s": body.lease_s})


def tell_answer(external: External, study: str, body: Tell) -> bytes:
    """Return the answer to a tell.  Raises as ``External.tell`` does."""
    results: Sequence[TrialResult] = [
        TrialResult(
            result.trial,
            result.value,
            result.standard_error,
            TrialState(result.state),
            result.reason,
            result.quantities,
            result.costs,
        )
        for result in body.results
    ]
    external.tell(study, results)
    return json_bytes({"told": len(results)})


def _ask(kept: Opened, study: str, body: str, parameters: str) -> bytes:
    return ask_answer(kept.external, study, Ask.model_validate_json(body), int(parameters))


def _tell(kept: Opened, study: str, body: str) -> bytes:
    return tell_answer(kept.external, study, Tell.model_validate_json(body))


def _leave(kept: Opened, study: str) -> bytes:
    kept.external.leave(study)
    return b""


ANSWERS: Mapping[str, Callable[..., bytes]] = {"ask": _ask, "tell": _tell, "leave": _leave}
"""Functions of the process by name; each takes the open adapters, a study and the request's body as JSON."""


class Admission:
    """Admission control: ``at_once`` requests at a time, others wait: ``most`` in all, ``most_per_caller`` of one.

    ``what``: the plural that names them in a refusal.
    """

    def __init__(self, at_once: int, most: int, most_per_caller: int, what: str) -> None:
        self.limiter = CapacityLimiter(at_once)
        self._most, self._most_per_caller, self._what = most, most_per_caller, what
        self._waiting: Counter[str] = Counter()  # caller -> its requests, those that have the limiter too

    @contextmanager
    def waiting(self, caller: str) -> Iterator[None]:
        """Context of a request that waits for the limiter, or has it.  Raises Refused: 429, 503."""
        if self._waiting[caller] >= self._most_per_caller:
            detail = f"{self._most_per_caller} {self._what} wait for you already"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, detail, **AGAIN)
        if self._waiting.total() >= self._most:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"{self._most} {self._what} are waiting", **AGAIN)
        self._waiting[caller] += 1
        try:
            yield
        finally:
            self._waiting[caller] -= 1
            if not self._waiting[caller]:
                del self._waiting[caller]


class LargeSpaces:
    """The process that answers asks and tells, one after the other; a request that waits for it holds no thread."""

    def __init__(self, settings: Settings) -> None:
        self.child = Child(
            settings,
            "framework.api.large_spaces:ANSWERS",
            nice=NICE,
            kept_parameters=KEPT_PARAMETERS,
            most_bytes=MOST_BYTES,
        )
        self._admission = Admission(1, MOST, MOST_PER_CALLER, "asks and tells of large spaces")
        self.making = Admission(
            MADE_AT_ONCE, MOST_MADE, MOST_MADE_PER_CALLER, "studies of large spaces"
        )  # by this process

    async def ask(self, study: str, body: Ask, parameters: int, caller: str) -> bytes:
        """As ``ask_answer``.  Raises Refused too: 429, 503, and 422 where it takes too much memory."""
        return await self._answer(caller, "ask", study, body.model_dump_json(), str(parameters))

    async def tell(self, study: str, body: Tell, caller: str) -> bytes:
        """As ``tell_answer``.  Raises Refused too: 429, 503, 422."""
        return await self._answer(caller, "tell", study, body.model_dump_json())

    async def leave(self, study: str) -> None:
        """Let the process give up its lease of a study, after the requests before.  Raises Refused: 503."""
        if self.child.pid is not None:
            await self._in_turn(Question("leave", (study,)))

    def close(self) -> None:
        """End the process: requests that wait and all later ones are refused."""
        self.child.close()

    async def _answer(self, caller: str, name: str, *arguments: str) -> bytes:
        with self._admission.waiting(caller):
            return await self._in_turn(Question(name, arguments))

    async def _in_turn(self, question: Question) -> bytes:
        """Ask the process, to the end also where the client leaves: else the next question would get this answer."""
        _, answer = await to_thread.run_sync(self.child.ask, question, LIMIT_S, limiter=self._admission.limiter)
        return answer


def json_bytes(value: object) -> bytes:
    """Return a value as the JSON body of an answer."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
