"""Asks of large spaces are answered in another process, a bounded number at a time; other requests go on."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from framework.api.child import Child, Question, Revision
from framework.api.large_spaces import (
    LARGE,
    MOST,
    MOST_MADE_PER_CALLER,
    MOST_PER_CALLER,
    Admission,
    LargeSpaces,
)
from framework.api.problems import Refused
from framework.api.requests import Ask
from framework.bootstrap.adapters import Opened
from framework.config.settings import Settings
from tests.serving import PATIENCE_S, Here, serving


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    with serving(tmp_path, monkeypatch) as server:
        yield server


def space(size: int) -> list[dict[str, Any]]:
    return [{"name": f"s{n // 10}.p{n}", "kind": "real", "default": 0.5, "low": 0, "high": 1} for n in range(size)]


def create(here: Here, size: int, optimizer: str = "random", budget: int = 100) -> str:
    made = {"name": "mine", "parameters": space(size), "optimizer": optimizer, "budget": budget}
    answer = here.client.post("/v1/external", json=made)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["study"])


def ask(here: Here, study: str, count: int = 1) -> Sequence[int]:
    answer = here.client.post(f"/v1/external/{study}/ask", json={"client": "a", "count": count})
    assert answer.status_code == 200, answer.text
    return [trial["trial"] for trial in answer.json()["trials"]]


def who_asks(here: Here, study: str) -> int:
    """Return the id of the process that has the study's optimizer."""
    return int(dict(here.kept.store.leased())[study].rpartition(":")[2])


@pytest.mark.parametrize("optimizer", ["random", "tpe"])
def test_a_large_space_is_asked_elsewhere_and_a_small_one_here(here: Here, optimizer: str) -> None:
    small, large = create(here, 3, optimizer), create(here, LARGE, optimizer)
    assert ask(here, small, 2) == ask(here, large, 2) == [1, 2]
    assert who_asks(here, small) == os.getpid()
    assert who_asks(here, large) != os.getpid()


def test_a_large_study_from_creation_to_deletion(here: Here) -> None:
    study = create(here, LARGE)
    path = f"/v1/external/{study}"
    assert ask(here, study, 3) == [1, 2, 3]
    results = {"results": [{"trial": 2, "value": 1.0}, {"trial": 1, "state": "failed", "reason": "no"}]}
    assert here.client.post(f"{path}/tell", json=results).json() == {"told": 2}
    assert here.client.post(f"{path}/tell", json=results).json() == {"told": 2}, "again, it changes nothing"
    other = here.client.post(f"{path}/tell", json={"results": [{"trial": 2, "value": 2.0}]})
    assert (other.status_code, other.headers["content-type"]) == (409, "application/problem+json")
    assert here.client.post(f"{path}/tell", json={"results": [{"trial": 9, "value": 2.0}]}).status_code == 404
    heartbeat = {"client": "a", "trials": [1, 3]}
    assert here.client.post(f"{path}/heartbeat", json=heartbeat).json() == {"renewed": [3], "lost": [1]}
    assert here.client.get(path).json()["best"]["trial"] == 2
    assert here.client.post(f"{path}/finish").status_code == 204
    assert here.client.post(f"{path}/ask", json={"client": "a"}).status_code == 409
    assert here.client.delete(f"/v1/studies/{study}").status_code == 204
    assert here.client.post(f"{path}/ask", json={"client": "a"}).status_code == 404


def test_a_large_study_that_is_asked_can_be_deleted(here: Here) -> None:
    study = create(here, LARGE)
    assert ask(here, study) == [1]
    assert here.client.delete(f"/v1/studies/{study}").status_code == 204


def test_many_large_asks_at_once_are_all_answered_and_give_each_trial_once(here: Here) -> None:
    studies = [create(here, LARGE, budget=20) for _ in range(2)]
    numbers_of: dict[str, list[int]] = {study: [] for study in studies}

    def client(study: str) -> None:
        with httpx.Client(base_url=here.client.base_url, timeout=PATIENCE_S) as http:
            for _ in range(3):
                answer = http.post(f"/v1/external/{study}/ask", json={"client": "a", "count": 2})
                numbers_of[study] += [trial["trial"] for trial in answer.json()["trials"]]

    threads = [threading.Thread(target=client, args=(study,)) for study in studies for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert here.client.get("/v1/health").status_code == 200
    assert all(sorted(numbers) == list(range(1, 19)) for numbers in numbers_of.values())


def test_a_process_that_was_killed_is_replaced_and_goes_on_where_it_was(here: Here) -> None:
    study = create(here, LARGE, "dds")
    assert ask(here, study, 2) == [1, 2]
    first = who_asks(here, study)
    os.kill(first, 9)
    answer = here.client.post(f"/v1/external/{study}/ask", json={"client": "a"})
    while answer.status_code == 503:  # it died while it was asked
        answer = here.client.post(f"/v1/external/{study}/ask", json={"client": "a"})
    assert [trial["trial"] for trial in answer.json()["trials"]] == [3]
    assert who_asks(here, study) != first
    kinds = [event["kind"] for event in here.kept.store.events(study)]
    assert "replay diverged" not in kinds


class Slow(Child):
    """A child that answers as soon as ``let`` is set."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.at_once = self.most_at_once = 0

    def ask(self, question: Question, limit_s: float) -> tuple[Revision, bytes]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.let.wait(PATIENCE_S)
        self.at_once -= 1
        return (), b"{}"


def test_how_many_wait_is_bounded_and_one_has_its_turn_at_a_time(tmp_path: Path) -> None:
    async def inside() -> None:
        made = LargeSpaces(Settings.from_environment({"TAILOR_HOME": str(tmp_path)}))
        made.child = slow = Slow()

        async def ask(caller: str) -> bytes:
            return await made.ask("s", Ask(client="a"), LARGE, caller)

        waiting = [asyncio.ensure_future(ask(f"caller {n // MOST_PER_CALLER}")) for n in range(MOST)]
        await anyio.sleep(0)
        with pytest.raises(Refused) as many:
            await ask("caller 0")
        with pytest.raises(Refused) as full:
            await ask("another")
        assert (many.value.status, full.value.status) == (429, 503)
        slow.let.set()
        assert await asyncio.gather(*waiting) == [b"{}"] * MOST
        assert slow.most_at_once == 1
        assert await ask("another") == b"{}"

    asyncio.run(inside())


def test_nobody_waits_when_the_service_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = threading.Event()
    wait = Child.ask

    def noted(self: Child, question: Question, limit_s: float) -> Any:
        began.set()
        return wait(self, question, limit_s)

    monkeypatch.setattr(Child, "ask", noted)
    answers: list[int] = []
    with serving(tmp_path, monkeypatch) as here:
        study = create(here, 5_000, "tpe")

        def client() -> None:
            with httpx.Client(base_url=here.client.base_url, timeout=PATIENCE_S) as http:
                try:
                    answers.append(http.post(f"/v1/external/{study}/ask", json={"client": "a"}).status_code)
                except httpx.TransportError:
                    answers.append(0)

        asks = threading.Thread(target=client)
        asks.start()
        assert began.wait(PATIENCE_S)
    asks.join(PATIENCE_S)
    assert answers in ([503], [0], [200])


def hog(kept: Opened, size: str) -> bytes:
    """Answer after taking ``size`` bytes of memory."""
    return bytes(int(size))[:3]


ANSWERS = {"hog": hog}


def test_an_answer_that_takes_too_much_memory_is_refused_and_its_process_replaced(tmp_path: Path) -> None:
    settings = Settings.from_environment({"TAILOR_HOME": str(tmp_path)})
    made = Child(settings, f"{__name__}:ANSWERS", most_bytes=256 * 2**20)
    try:
        assert made.ask(Question("hog", (str(2**20),)), PATIENCE_S) == ((), b"\0\0\0")
        first = made.pid
        with pytest.raises(Refused, match="more memory") as raised:
            made.ask(Question("hog", (str(2**30),)), PATIENCE_S)
        assert raised.value.status == 422
        assert made.pid is None
        assert made.ask(Question("hog", (str(2**20),)), PATIENCE_S) == ((), b"\0\0\0")
        assert made.pid != first
    finally:
        made.end()


def test_a_design_that_takes_gigabytes_is_not_drawn(here: Here) -> None:
    """Such a design is a population of 5,001 points of 5,000 parameters, or a Latin hypercube of the whole budget."""
    made = {"name": "mine", "parameters": space(5_000), "budget": 1_000_000}
    refused = here.client.post("/v1/external", json={**made, "optimizer": "lhs"})
    assert (refused.status_code, "at most 2,000,000 values" in refused.text) == (422, True)
    study = create(here, 5_000, "ga", budget=1_000_000)
    assert ask(here, study) == [1], "the default, which needs no population"
    answer = here.client.post(f"/v1/external/{study}/ask", json={"client": "a"})
    assert (answer.status_code, "more memory" in answer.text) == (422, True)
    assert here.client.delete(f"/v1/studies/{study}").status_code == 204
    assert ask(here, create(here, LARGE)) == [1], "others go on"


def test_many_large_studies_are_not_made_at_once(here: Here) -> None:
    """Each request takes 15 MB while it waits, and there may be hundreds of connections."""
    body = {"name": "mine", "parameters": space(2_000), "optimizer": "random"}

    def make(number: int) -> int:
        with httpx.Client(base_url=here.client.base_url, timeout=PATIENCE_S) as client:
            return client.post("/v1/external", json=body).status_code

    with ThreadPoolExecutor(40) as pool:
        statuses = list(pool.map(make, range(40)))
    assert set(statuses) <= {201, 429}
    assert statuses.count(201) >= MOST_MADE_PER_CALLER
    assert make(0) == 201


def test_requests_that_wait_are_bounded_by_caller_and_in_all() -> None:
    admission = Admission(1, 3, 2, "things")
    with (
        admission.waiting("a"),
        admission.waiting("a"),
        pytest.raises(Refused, match="2 things wait for you already") as refused,
    ):
        admission.waiting("a").__enter__()
    with (
        admission.waiting("a"),
        admission.waiting("b"),
        admission.waiting("c"),
        pytest.raises(Refused, match="3 things") as all_,
    ):
        admission.waiting("d").__enter__()
    assert (refused.value.status, all_.value.status) == (429, 503)
    with admission.waiting("a"), admission.waiting("a"), admission.waiting("d"):
        pass
