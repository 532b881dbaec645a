"""Live events of a study as server-sent events (HTML standard, section 9.2), with replay from an event's id.

However many watch a study, the store is asked by one task for all of them.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from framework.api.access import Caller
from framework.api.problems import Refused
from framework.api.requests import MOST_NUMBER
from framework.api.scrubbing import scrubbed
from framework.api.service import Service
from framework.errors import TailorError

EVERY_S = 0.5
QUIET_S = 15.0  # a comment, so that proxies keep the connection
MOST_WATCHERS = 1_000
MOST_OF_ONE = 50  # that one caller has: several pages open, not all that there are
MOST_WAITING = 1_000  # events that a slow watcher may have before it; then it has to come again and replay


class Watching:
    """The watchers of one study, and the task that asks for them."""

    def __init__(self, service: Service, study: str, after: int) -> None:
        self._service = service
        self._study = study
        self._after = after
        self._queues: set[asyncio.Queue[str | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._progress: Mapping[str, Any] | None = None

    @property
    def watchers(self) -> int:
        return len(self._queues)

    def join(self) -> asyncio.Queue[str | None]:
        queue: asyncio.Queue[str | None] = asyncio.Queue(MOST_WAITING)
        self._queues.add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._ask())
        return queue

    def leave(self, queue: asyncio.Queue[str | None]) -> None:
        self._queues.discard(queue)

    def end(self) -> None:
        """All leave; they may come again, and replay."""
        for queue in list(self._queues):
            self._end(queue)

    def _end(self, queue: asyncio.Queue[str | None]) -> None:
        self._queues.discard(queue)
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)

    async def _ask(self) -> None:
        while self._queues:
            try:
                news = await run_in_threadpool(self._news)
            except TailorError:  # a store that is away comes back, and nothing is lost meanwhile
                news = []
            for text in news:
                for queue in list(self._queues):
                    if queue.full():
                        self._end(queue)
                    else:
                        queue.put_nowait(text)
            await asyncio.sleep(EVERY_S)

    def _news(self) -> list[str]:
        found = self._service.store.events(self._study, self._after)
        said = [as_text(one) for one in found]
        self._after = max([self._after, *(int(one["id"]) for one in found)])
        progress = self._service.queue.progress(self._study)
        if progress != self._progress:
            self._progress = progress
            said.append(f"event: progress\ndata: {json.dumps(progress)}\n\n")
        return said


def as_text(event: Mapping[str, Any]) -> str:
    """An event of the store as it goes over the wire."""
    data = {key: value for key, value in event.items() if key != "id"}
    data |= {key: scrubbed(data[key]) for key in ("message", "reason") if data.get(key)}
    return f"id: {event['id']}\nevent: {event['kind'].replace(' ', '-')}\ndata: {json.dumps(data)}\n\n"


class Stream(StreamingResponse):
    """Counted among its caller's from when it is made until it ends, however it does."""

    def __init__(self, said: AsyncIterator[str], watchers: Counter[str], who: str) -> None:
        super().__init__(said, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._watchers, self._who = watchers, who
        watchers[who] += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._watchers[self._who] -= 1
            if not self._watchers[self._who]:
                del self._watchers[self._who]


def router(service: Service, ending: list[Callable[[], None]]) -> APIRouter:
    """The route of a study's events; what it adds to ``ending`` ends all streams."""
    routes = APIRouter(tags=["studies"])
    reads = Depends(service.access.needs("read"))
    watching: dict[str, Watching] = {}
    watchers: Counter[str] = Counter()  # by caller

    @routes.get("/studies/{study}/events", response_class=StreamingResponse)
    async def events(
        study: str,
        caller: Caller = reads,
        after: Annotated[int, Query(ge=0, le=MOST_NUMBER)] = 0,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> StreamingResponse:
        """All events after ``after`` (or Last-Event-ID), then new ones as they come; ``progress`` events have no id."""
        await run_in_threadpool(service.study, study)
        if last_event_id is not None:
            if not (last_event_id.isascii() and last_event_id.isdecimal() and int(last_event_id) <= MOST_NUMBER):
                raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "Last-Event-ID: allowed: a number")
            after = int(last_event_id)
        if watchers[caller.who] >= MOST_OF_ONE:
            said = f"you have {MOST_OF_ONE} event streams already"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, said, **{"Retry-After": "30"})
        if watchers.total() >= MOST_WATCHERS:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many watchers", **{"Retry-After": "30"})
        return Stream(stream(study, after), watchers, caller.who)

    def end() -> None:
        for one in list(watching.values()):
            one.end()

    ending.append(end)

    async def stream(study: str, after: int) -> AsyncIterator[str]:
        mine = watching.setdefault(study, Watching(service, study, after))
        queue = mine.join()  # before the past is read, so that nothing falls between the two
        past = await run_in_threadpool(service.store.events, study, after)
        last = max([after, *(int(one["id"]) for one in past)])
        try:
            for one in past:
                yield as_text(one)
            while True:
                try:
                    text = await asyncio.wait_for(queue.get(), QUIET_S)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if text is None:
                    return
                if number(text) > last or not number(text):  # what both the past and the task saw is said once
                    yield text
        finally:
            mine.leave(queue)
            if not mine.watchers:
                watching.pop(study, None)

    return routes


def number(text: str) -> int:
    """The id of an event on the wire; 0 where it has none."""
    return int(text[4 : text.index("\n")]) if text.startswith("id: ") else 0
