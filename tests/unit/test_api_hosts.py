"""The service answers to this host's names only, refuses pages of other sites, and believes only named proxies."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from httpx import Client

from framework.api.app import reached_at
from framework.api.connections import Limits
from framework.api.middleware import HostCheck
from framework.client import Client as ApiClient
from tests.serving import JOB, PATIENCE_S, Here, served, serving

BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Chrome/140"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    with serving(tmp_path, monkeypatch) as server:
        yield server


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost:1", "[::1]:8420", "127.0.0.1:", "localhost.:80"])
def test_names_of_loopback(here: Here, host: str) -> None:
    assert here.client.get("/v1/studies", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "localhost.evil.example", "[::2]", "127.1", "[::1",
     "a@localhost", "localhost@evil.example", "localhost:80:90", "0.0.0.0", "%6cocalhost", "localhost, evil.example",
     "\xa0localhost"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/health", "/v1/studies", "/", "/static/icon.svg", "/nothing"])
def test_another_name_is_misdirected(here: Here, host: str, path: str) -> None:
    answer = here.client.get(path, headers={b"Host": host.encode("latin-1")})
    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_request_has_one_host(here: Here) -> None:
    assert here.client.get("/v1/health", headers={"Host": ""}).status_code == 400
    url = here.client.base_url
    for hosts in (b"", b"Host: localhost\r\nHost: evil.example\r\n", b"Host: localhost\r\nHost: localhost\r\n"):
        with socket.create_connection((url.host, url.port or 0), PATIENCE_S) as connection:
            connection.sendall(b"GET /v1/health HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 400 "), hosts


def test_names_that_the_operator_gives() -> None:
    app = FastAPI()
    app.add_middleware(HostCheck, hosts=("tailor.example", *reached_at("2001:db8::1"), *reached_at("0.0.0.0")))

    @app.get("/")
    def thing() -> str:
        return "here"

    with served(app) as address, Client(base_url=address, timeout=PATIENCE_S) as client:
        statuses = {
            host: client.get("/", headers={"Host": host}).status_code
            for host in ("tailor.example", "Tailor.Example:443", "[2001:DB8:0::1]:8420", "0.0.0.0", "other.example")
        }
    assert list(statuses.values()) == [200, 200, 200, 421, 421]


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "DELETE", "PUT"])
def test_another_sites_page_is_refused_whatever_it_asks(here: Here, method: str) -> None:
    answer = here.client.request(method, "/v1/studies", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "headers",
    [BROWSER, {"Cookie": "tailor=x"}, {"Sec-Fetch-Mode": "cors"}, {"Origin": "null"}, {"Origin": ""},
     {"Origin": "http://evil.example"}, {"Origin": "http://["}, {"Origin": "http://localhost:1"},
     {**BROWSER, "Origin": "http://127.0.0.1"}],
)  # fmt: skip
def test_a_change_from_a_browser_names_this_host(here: Here, headers: dict[str, str]) -> None:
    assert here.client.post("/v1/studies", json=JOB, headers=headers).status_code == 403
    assert here.client.get("/v1/studies", headers=headers).status_code == 200, "looking changes nothing"
    assert here.get("/studies")["items"] == []


def test_this_hosts_pages_and_programs_may_change_things(here: Here) -> None:
    origin = str(here.client.base_url).rstrip("/")
    page = {**BROWSER, "Origin": origin, "Sec-Fetch-Site": "same-origin", "Cookie": "tailor=x"}
    assert here.client.post("/v1/studies", json=JOB, headers=page).status_code == 201
    assert here.client.post("/v1/studies", json=JOB, headers={"User-Agent": "curl/8.5"}).status_code == 201
    with ApiClient(origin) as client:
        assert client.launch(**JOB)


@pytest.mark.parametrize(("proxies", "seen"), [((), "127.0.0.1"), (("127.0.0.0/8",), "192.0.2.7")])
def test_a_proxy_is_believed_where_it_is_named(
    proxies: tuple[str, ...], seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    app = FastAPI()

    @app.get("/")
    def who(request: Request) -> str:
        return f"{request.client.host if request.client else ''} {request.url.scheme}"

    forwarded = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"}
    with served(app, Limits(proxies=proxies)) as address, Client(base_url=address, timeout=PATIENCE_S) as client:
        assert client.get("/", headers=forwarded).json() == f"{seen} {'https' if proxies else 'http'}"
