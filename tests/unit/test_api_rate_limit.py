"""The rate limit: the requests per second that the service takes of each caller."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from httpx import Client, Response

from framework.api import problems
from framework.api.access import TOKENS_TTL_S, Access, new_token
from framework.api.rate_limit import BURST_S, MOST_CALLERS, RateLimit
from framework.bootstrap.adapters import Opened, opened
from framework.config.settings import Settings
from tests.serving import PATIENCE_S, served


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Opened]:
    adapters = opened(Settings.from_environment({"TAILOR_HOME": str(tmp_path)}))
    yield adapters
    adapters.close()


def service(kept: Opened, clock: Clock) -> FastAPI:
    app, access = FastAPI(), Access(kept.tokens, RateLimit(10.0, clock), clock)
    problems.install(app)

    @app.get("/")
    async def whoever(request: Request) -> str:
        return (await access.caller(request)).name

    return app


def until_refused(client: Client, **headers: str) -> tuple[int, Response]:
    """Return how many requests were answered, and the answer that refused the next."""
    for count in range(1000):
        answer = client.get("/", headers=headers)
        if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            return count, answer
    raise AssertionError("never refused")


def test_a_caller_keeps_its_pace(kept: Opened) -> None:
    clock = Clock()
    with served(service(kept, clock)) as address, Client(base_url=address, timeout=PATIENCE_S) as client:
        burst, refused = until_refused(client)
        assert burst == pytest.approx(BURST_S * 10, abs=1)
        assert refused.headers["content-type"] == "application/problem+json"
        assert int(refused.headers["retry-after"]) >= 1
        clock.now += 0.5
        assert until_refused(client)[0] == 5
        invented = [client.get("/", headers={"Authorization": f"Bearer {n}", "Cookie": f"tailor={n}"}) for n in "abc"]
        assert {answer.status_code for answer in invented} == {429}, "a made-up token is nobody else"


def test_tokens_do_not_slow_each_other_down(kept: Opened) -> None:
    tokens = {name: new_token() for name in ("ours", "theirs")}
    for name, (_, digest) in tokens.items():
        kept.tokens.add(name, digest, "read")
    with served(service(kept, Clock())) as address, Client(base_url=address, timeout=PATIENCE_S) as client:
        assert until_refused(client, Authorization=f"Bearer {tokens['ours'][0]}")[0] > 0
        theirs = {"Authorization": f"Bearer {tokens['theirs'][0]}"}
        assert client.get("/", headers=theirs).json() == "theirs"
        wrong, _ = until_refused(client, Authorization="Bearer wrong")
        assert wrong > 0, "answered 401 until they were too many"
        assert client.get("/", headers=theirs).json() == "theirs", "of the same address, with a token"


def test_a_new_token_is_good_at_once_and_one_that_was_taken_back_for_a_second_at_most(kept: Opened) -> None:
    clock = Clock()
    (first, digest), (second, another) = new_token(), new_token()
    kept.tokens.add("first", digest, "read")
    with served(service(kept, clock)) as address, Client(base_url=address, timeout=PATIENCE_S) as client:

        def status(token: str) -> int:
            return client.get("/", headers={"Authorization": f"Bearer {token}"}).status_code

        assert (status(first), status(second)) == (200, 401)
        kept.tokens.add("second", another, "read")
        assert status(second) == 200
        kept.tokens.remove("first")
        clock.now += TOKENS_TTL_S
        assert (status(first), status(second)) == (401, 200)


def test_the_memory_is_bounded() -> None:
    limit = RateLimit(1.0, Clock())
    for number in range(MOST_CALLERS + 5):
        limit.count(f"address {number}")
    assert len(limit._free_at) == MOST_CALLERS
