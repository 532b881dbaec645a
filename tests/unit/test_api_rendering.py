"""Slow answers are computed once, in another process and in bounds; other requests are answered meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from framework.api import child, rendering
from framework.api.access import TOKENS_TTL_S, new_token
from framework.api.child import Child, Question
from framework.api.events import MOST_PER_CALLER as MOST_STREAMS
from framework.api.problems import Refused
from framework.api.rendering import MOST, MOST_PER_CALLER, Rendering
from framework.bootstrap.adapters import Opened, opened
from framework.config.settings import Settings
from framework.errors import NotFound
from framework.model import Study, StudyState
from tests.serving import PATIENCE_S, Here, serving

PARAMETERS: list[dict[str, Any]] = [{"name": "a.b", "kind": "integer", "default": 8, "low": 1, "high": 64}]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    with serving(tmp_path, monkeypatch) as server:
        yield server


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_environment({"TAILOR_HOME": str(tmp_path)})


@pytest.fixture
def kept(settings: Settings) -> Iterator[Opened]:
    adapters = opened(settings)
    yield adapters
    adapters.close()


def external(kept: Opened) -> Study:
    return kept.external.create("mine", SPACE, "random", 30, 1, {})


SPACE = {"parameters": [{**PARAMETERS[0], "group": "a"}]}


class Counting(Child):
    """A child that computes nothing: it counts the questions, and answers as soon as ``let`` is released."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.let = threading.Semaphore(0)
        self.revision: Callable[[str], tuple[int, int]] = lambda study: (0, 0)
        self.error: Exception | None = None
        self.size = 10

    def ask(self, question: Question, limit_s: float) -> tuple[child.Revision, bytes]:
        self.asked.append(question)
        revisions = tuple(self.revision(study) for study in question.studies)
        self.let.acquire()
        if self.error is not None:
            raise self.error
        return revisions, b"x" * self.size

    def end(self) -> None:
        pass

    def close(self) -> None:
        self.let.release(1000)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def run(
    do: Callable[[Rendering, Counting, dict[str, tuple[int, int]], Clock], Awaitable[None]], settings: Settings
) -> None:
    async def inside() -> None:
        revisions: dict[str, tuple[int, int]] = {}
        clock = Clock()
        made = Rendering(settings, lambda study: revisions.get(study, (1, 1)), now=clock)
        counting = Counting()
        counting.revision = lambda study: revisions.get(study, (1, 1))
        made.child = counting
        try:
            await do(made, counting, revisions, clock)
        finally:
            made.close()

    asyncio.run(inside())


async def _until(ask: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not ask():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def _study(state: StudyState, kept: Opened, name: str = "s") -> Study:
    return replace(external(kept), id=name, state=state)


def test_the_same_question_is_computed_once_and_kept(settings: Settings, kept: Opened) -> None:
    study = _study(StudyState.COMPLETED, kept)

    async def do(made: Rendering, counting: Counting, revisions: Any, clock: Clock) -> None:
        asking = [asyncio.create_task(made.answer("body", ["s"], [study], str(who))) for who in range(45)]
        await _until(lambda: len(counting.asked) == 1)
        counting.let.release()
        assert set(await asyncio.gather(*asking)) == {b"x" * 10}
        await made.answer("body", ["s"], [study], "a")
        assert len(counting.asked) == 1
        revisions["s"] = (2, 1)
        counting.let.release()
        await made.answer("body", ["s"], [study], "a")
        assert len(counting.asked) == 2, "something happened to the study"
        clock.now += rendering.TTL_S
        counting.let.release()
        await made.answer("body", ["s"], [study], "a")
        assert len(counting.asked) == 3

    run(do, settings)


def test_what_was_read_before_the_study_changed_is_computed_again(settings: Settings, kept: Opened) -> None:
    study = _study(StudyState.COMPLETED, kept)

    async def do(made: Rendering, counting: Counting, revisions: Any, clock: Clock) -> None:
        first = asyncio.create_task(made.answer("body", ["s"], [study], "a"))
        await _until(lambda: len(counting.asked) == 1)
        revisions["s"] = (5, 1)
        second = asyncio.create_task(made.answer("body", ["s"], [study], "b"))
        await asyncio.sleep(0.05)
        counting.let.release(2)
        await asyncio.gather(first, second)
        assert len(counting.asked) == 2

    run(do, settings)


def test_a_study_that_runs_is_computed_now_and_then(settings: Settings, kept: Opened) -> None:
    study = _study(StudyState.RUNNING, kept)

    async def do(made: Rendering, counting: Counting, revisions: Any, clock: Clock) -> None:
        counting.let.release(100)
        for event in range(30):
            revisions["s"] = (event, 1)
            await made.answer("body", ["s"], [study], "a")
            clock.now += 2.0
        assert len(counting.asked) == 2, "of a minute"
        await made.answer("body", ["s"], [replace(study, state=StudyState.COMPLETED)], "a")
        assert len(counting.asked) == 3, "at its end at once"

    run(do, settings)


def test_the_number_of_questions_is_bounded(settings: Settings) -> None:
    async def do(made: Rendering, counting: Counting, revisions: Any, clock: Clock) -> None:
        asking = [
            asyncio.create_task(made.answer("race", [str(number)], [], f"caller {number // MOST_PER_CALLER}"))
            for number in range(MOST)
        ]
        await _until(lambda: len(made._flights) == MOST)
        with pytest.raises(Refused) as refused:
            await made.answer("race", ["more"], [], "caller 0")
        with pytest.raises(Refused) as all_:
            await made.answer("race", ["more"], [], "somebody else")
        assert [refused.value.status, all_.value.status] == [429, 503]
        assert refused.value.headers["Retry-After"]
        same = asyncio.create_task(made.answer("race", ["0"], [], "somebody else"))
        counting.let.release(1000)
        assert len(await asyncio.gather(same, *asking)) == MOST + 1, "who asks what is being computed is no burden"
        await made.answer("race", ["more"], [], "caller 0")

    run(do, settings)


def test_what_is_kept_is_bounded(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "CACHE_BYTES", 100_000)

    async def do(made: Rendering, counting: Counting, revisions: Any, clock: Clock) -> None:
        counting.let.release(1000)
        counting.size = 10_000
        for number in range(50):
            await made.answer("race", [str(number)], [], "a")
        assert made._bytes <= 100_000
        assert made._bytes == sum(len(entry.answer) + rendering.ENTRY_BYTES for entry in made._cache.values())
        await made.answer("race", ["49"], [], "a")
        assert len(counting.asked) == 50
        counting.size = 50_000
        await made.answer("race", ["large"], [], "a")
        assert len(made._cache) > 5, "one large answer does not push the others out"

    run(do, settings)


def test_an_error_is_everybodys_and_not_kept(settings: Settings) -> None:
    async def do(made: Rendering, counting: Counting, revisions: Any, clock: Clock) -> None:
        counting.error = NotFound("no study 'x'")
        counting.let.release(1000)
        errors = await asyncio.gather(*(made.answer("race", [], [], "a") for _ in range(3)), return_exceptions=True)
        assert {type(error) for error in errors} == {NotFound}
        counting.error = None
        assert await made.answer("race", [], [], "a")

    run(do, settings)


def test_the_end_lets_nobody_wait(settings: Settings) -> None:
    async def do(made: Rendering, counting: Counting, revisions: Any, clock: Clock) -> None:
        asking = [asyncio.create_task(made.answer("race", [str(number)], [], "a")) for number in range(3)]
        await _until(lambda: len(made._flights) == 3)
        made.close()
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert [answer.status for answer in answers if isinstance(answer, Refused)] == [503, 503, 503]
        with pytest.raises(Refused):
            await made.answer("race", ["more"], [], "a")

    run(do, settings)


# ------------------------------------------------------------------ with the real service


def test_health_answers_while_many_ask_for_a_page(here: Here) -> None:
    study = here.launch()
    here.kept.worker.run(until_empty=True)
    statuses: list[int] = []
    asking = [
        threading.Thread(
            target=lambda: statuses.append(
                httpx.get(f"{here.client.base_url}/studies/{study}", timeout=PATIENCE_S).status_code
            )
        )
        for _ in range(45)
    ]
    meanwhile = 0  # answers before the last page came
    for thread in asking:
        thread.start()
    while any(thread.is_alive() for thread in asking):
        assert here.client.get("/v1/health").status_code == here.client.get("/v1/ready").status_code == 200
        meanwhile += any(thread.is_alive() for thread in asking)
        time.sleep(0.05)  # the process that computes pages has a lower priority, and must get to run on a busy machine
    assert statuses == [200] * 45
    assert meanwhile, "health and readiness do not wait for pages"


def test_a_caller_has_so_many_event_streams(here: Here) -> None:
    tokens = {}
    for name in ("ours", "theirs"):
        tokens[name], digest = new_token()
        here.kept.tokens.add(name, digest, "admin")
    time.sleep(TOKENS_TTL_S)
    theirs, ours = ({"Authorization": f"Bearer {tokens[name]}"} for name in ("theirs", "ours"))
    made = {"name": "mine", "parameters": PARAMETERS}
    study = here.client.post("/v1/external", json=made, headers=ours).json()["study"]
    streams = []
    with httpx.Client(base_url=here.client.base_url, timeout=PATIENCE_S, limits=httpx.Limits()) as client:

        def watch(headers: dict[str, str]) -> int:
            asked = client.build_request("GET", f"/v1/studies/{study}/events", headers=headers)
            answer = client.send(asked, stream=True)
            streams.append(answer)
            return answer.status_code

        assert [watch(theirs) for _ in range(MOST_STREAMS)] == [200] * MOST_STREAMS
        assert watch(theirs) == 429
        assert watch(ours) == 200, "for others there is room"
        streams[0].close()
        deadline = time.monotonic() + PATIENCE_S
        while watch(theirs) != 200:
            assert time.monotonic() < deadline, "one that has left makes room"
            time.sleep(0.1)
        for stream in streams:
            stream.close()


def test_a_large_ask_gives_what_it_can(here: Here) -> None:
    many = [{**PARAMETERS[0], "name": f"s{number // 10}.p{number}"} for number in range(2_000)]
    made = {"name": "mine", "parameters": many, "optimizer": "random", "budget": 100}
    study = here.client.post("/v1/external", json=made).json()["study"]
    numbers: list[int] = []
    while len(numbers) < 25:
        answer = here.client.post(f"/v1/external/{study}/ask", json={"client": "a", "count": 100})
        offered = [trial["trial"] for trial in answer.json()["trials"]]
        assert 1 <= len(offered) <= 10
        numbers += offered
    assert numbers == list(range(1, len(numbers) + 1)), "nothing is skipped"
    few = {**made, "parameters": many[:3]}
    small = here.client.post("/v1/external", json=few).json()["study"]
    assert (
        len(here.client.post(f"/v1/external/{small}/ask", json={"client": "a", "count": 100}).json()["trials"]) == 100
    )


def test_the_name_of_an_external_study_is_never_used_as_a_path(here: Here) -> None:
    made = {"name": "/etc/passwd", "parameters": PARAMETERS}
    assert here.client.post("/v1/external", json=made).status_code == 422
    recorded = here.kept.external.prepared("mine", SPACE, "random", 30, 1, {})
    older = replace(recorded, plan=replace(recorded.plan, application="/etc/passwd"))  # an older version took any name
    here.kept.store.create(older)
    study = older.id
    for end in ("report", "best", "best.tar.gz", "critical-path"):
        assert here.get(f"/studies/{study}/{end}", 409)["detail"].startswith("this study is measured elsewhere")
    assert here.client.get(f"/studies/{study}/body").status_code == 409


def test_an_older_answer_where_the_machine_is_busy(
    settings: Settings, kept: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "STALE_AFTER_S", 0.1)
    study = _study(StudyState.RUNNING, kept)

    async def do(made: Rendering, counting: Counting, revisions: Any, clock: Clock) -> None:
        counting.let.release()
        await made.answer("body", ["s"], [study], "a")
        clock.now += rendering.RUNNING_TTL_S
        counting.size = 20
        assert await made.answer("body", ["s"], [study], "a") == b"x" * 10
        counting.let.release()
        await _until(lambda: not made._flights)
        assert await made.answer("body", ["s"], [study], "a") == b"x" * 20

    run(do, settings)
