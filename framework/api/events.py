"""Live events of a study as server-sent events (HTML standard, section 9.2), with replay from an event's id.

One task polls the store for all watchers of a study, however many there are.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from framework.api.dependencies import AppService, ReadCaller
from framework.api.problems import Refused
from framework.api.requests import MOST_NUMBER
from framework.api.scrubbing import scrubbed
from framework.api.service import Service
from framework.errors import TailorError

POLL_S = 0.5
KEEPALIVE_S = 15.0  # without an event, after which a comment is sent, so that proxies keep the connection
MOST_WATCHERS = 1_000
MOST_PER_CALLER = 50  # of the watchers: enough for several open pages, not for all that there are
MOST_QUEUED = 1_000  # events for a slow watcher; beyond, its stream ends, and it has to come again and replay


class Broadcast:
    """The watchers of one study, and the task that polls the store for them."""

    def __init__(self, service: Service, study: str, after: int) -> None:
        self._service = service
        self._study = study
        self._after = after
        self._queues: set[asyncio.Queue[str | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._progress: Mapping[str, Any] | None = None

    @property
    def watchers(self) -> int:
        """Number of watchers."""
        return len(self._queues)

    def join(self) -> asyncio.Queue[str | None]:
        """Add a watcher; return its queue of events as they are sent.  None in it means the end."""
        queue: asyncio.Queue[str | None] = asyncio.Queue(MOST_QUEUED)
        self._queues.add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())
        return queue

    def leave(self, queue: asyncio.Queue[str | None]) -> None:
        """Remove a watcher."""
        self._queues.discard(queue)

    def end(self) -> None:
        """End the streams of all watchers; they may come again, and replay."""
        for queue in list(self._queues):
            self._end(queue)

    def _end(self, queue: asyncio.Queue[str | None]) -> None:
        self._queues.discard(queue)
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)

    async def _poll(self) -> None:
        while self._queues:
            try:
                news = await run_in_threadpool(self._news)
            except TailorError:  # the store may come back, and no event is lost meanwhile
                news = []
            for text in news:
                for queue in list(self._queues):
                    if queue.full():
                        self._end(queue)
                    else:
                        queue.put_nowait(text)
            await asyncio.sleep(POLL_S)

    def _news(self) -> list[str]:
        events = self._service.store.events(self._study, self._after)
        texts = [as_text(event) for event in events]
        self._after = max([self._after, *(int(event["id"]) for event in events)])
        progress = self._service.queue.progress(self._study)
        if progress != self._progress:
            self._progress = progress
            texts.append(f"event: progress\ndata: {json.dumps(progress)}\n\n")
        return texts


def as_text(event: Mapping[str, Any]) -> str:
    """Return an event of the store as it is sent."""
    data = {key: value for key, value in event.items() if key != "id"}
    data |= {key: scrubbed(data[key]) for key in ("message", "reason") if data.get(key)}
    return f"id: {event['id']}\nevent: {event['kind'].replace(' ', '-')}\ndata: {json.dumps(data)}\n\n"


class Stream(StreamingResponse):
    """One caller's stream; it counts among the caller's ``watchers`` from when it is made until it ends in any way."""

    def __init__(self, texts: AsyncIterator[str], watchers: Counter[str], who: str) -> None:
        super().__init__(texts, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._watchers, self._who = watchers, who
        watchers[who] += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._watchers[self._who] -= 1
            if not self._watchers[self._who]:
                del self._watchers[self._who]


class EventStreams:
    """All event streams of an application: a Broadcast for each study that is watched, and each caller's streams."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._broadcasts: dict[str, Broadcast] = {}  # by study
        self._watchers: Counter[str] = Counter()  # caller -> its streams

    def open(self, study: str, after: int, who: str) -> Stream:
        """Return a caller's stream of a study's events.  Raises Refused: 429, 503."""
        if self._watchers[who] >= MOST_PER_CALLER:
            detail = f"you have {MOST_PER_CALLER} event streams already"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, detail, **{"Retry-After": "30"})
        if self._watchers.total() >= MOST_WATCHERS:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many watchers", **{"Retry-After": "30"})
        return Stream(self._texts(study, after), self._watchers, who)

    def end(self) -> None:
        """End all streams."""
        for broadcast in list(self._broadcasts.values()):
            broadcast.end()

    async def _texts(self, study: str, after: int) -> AsyncIterator[str]:
        broadcast = self._broadcasts.setdefault(study, Broadcast(self._service, study, after))
        queue = broadcast.join()  # before the past is read, so that no event is lost between the two
        past = await run_in_threadpool(self._service.store.events, study, after)
        last = max([after, *(int(event["id"]) for event in past)])
        try:
            for event in past:
                yield as_text(event)
            while True:
                try:
                    text = await asyncio.wait_for(queue.get(), KEEPALIVE_S)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if text is None:
                    return
                if _number(text) > last or not _number(text):  # an event that is in the past too was sent
                    yield text
        finally:
            broadcast.leave(queue)
            if not broadcast.watchers:
                self._broadcasts.pop(study, None)


async def streams_of(request: Request) -> EventStreams:
    """Return the streams of the application that answers."""
    streams: EventStreams = request.app.state.streams
    return streams


router = APIRouter(tags=["studies"])


@router.get("/studies/{study}/events", response_class=StreamingResponse)
async def events(
    study: str,
    service: AppService,
    streams: Annotated[EventStreams, Depends(streams_of)],
    caller: ReadCaller,
    after: Annotated[int, Query(ge=0, le=MOST_NUMBER)] = 0,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Stream all events after ``after`` (or Last-Event-ID), then new ones as they come; ``progress`` has no id."""
    await run_in_threadpool(service.study, study)
    if last_event_id is not None:
        if not (last_event_id.isascii() and last_event_id.isdecimal() and int(last_event_id) <= MOST_NUMBER):
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "Last-Event-ID: allowed: a number")
        after = int(last_event_id)
    return streams.open(study, after, caller.who)


def _number(text: str) -> int:
    """Return the id of an event as it is sent; 0 where it has none."""
    return int(text[4 : text.index("\n")]) if text.startswith("id: ") else 0
