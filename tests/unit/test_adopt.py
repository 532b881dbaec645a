"""Compose files as `tailor init` understands them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from framework.adopt.proposal import Proposal, application_text, propose, workload_text
from framework.adopt.recognition import image_path, recognise
from framework.adopt.requests import SOURCES, requests_of
from framework.config.application import load_application
from framework.config.compose_files import read_compose
from framework.config.knowledge import load_service_types
from framework.errors import FieldError, FileError
from framework.model import Application, ImageFacts, Objective, Service, Workload
from framework.ports.compose import ComposeSource
from framework.ports.testbed import GO_PROGRAM

ROOT = Path(__file__).parents[2]
SHOP = """\
services:
  frontend: {image: 'nginx:1.25', ports: ['8080:80'], depends_on: [api]}
  api:
    image: me/api
    environment: {DATABASE_URL: 'postgres://u:p@db:5432/shop', CACHE: 'cache:6379'}
  admin: {image: me/admin, ports: ['9000:9000'], environment: {API: 'http://api:8000'}}
  db: {image: 'docker.io/library/postgres:16', healthcheck: {test: [CMD-SHELL, pg_isready -U u]}}
  cache: {image: 'registry.example.org:5000/tools/redis:7'}
  migrate: {image: me/api, command: [migrate], depends_on: [db]}
  loadgenerator: {image: me/load, environment: {TARGET: 'frontend:80'}}
  grafana: {image: grafana/grafana, ports: ['3000:3000']}
  jaeger: {image: 'jaegertracing/all-in-one:1.60', ports: ['16686:16686']}
"""


def described(tmp_path: Path, text: str, images: Mapping[str, ImageFacts] | None = None) -> Application:
    """Return the application of a compose file, as init describes it."""
    path = tmp_path / "compose.yaml"
    path.write_text(text)
    compose = read_compose(ComposeSource((path,), tmp_path), None)
    services = tuple(Service(name, "", "local", tuned=False) for name in compose.document["services"])
    return Application(
        name="shop", directory=tmp_path, compose=compose.document, services=services, hosts=("local",),
        workload=Workload(1.0, "poisson", "", {}), tracing=None, objective=Objective(),
        environments=compose.environments, images=images or {},
    )  # fmt: skip


def proposed(tmp_path: Path, text: str = SHOP, images: Mapping[str, ImageFacts] | None = None) -> Proposal:
    return propose(described(tmp_path, text, images), load_service_types())


def test_types_are_recognised_with_their_certainty(tmp_path: Path) -> None:
    types = {name: (found.type, found.certainty) for name, found in proposed(tmp_path).types.items()}
    assert types == {
        "frontend": ("nginx", "certain"),
        "db": ("postgresql", "certain"),
        "cache": ("redis", "certain"),
    }


def test_what_an_image_says_counts(tmp_path: Path) -> None:
    facts = ImageFacts(entrypoint=("docker-entrypoint.sh",), command=("redis-server",), ports=(6379,))
    text = "services: {store: {image: me/store}, other: {image: me/other, expose: [6379]}}\n"
    application = described(tmp_path, text, {"store": facts})
    types = load_service_types()
    found = recognise(application, "store", types)
    assert found is not None
    assert (found.type, found.certainty, found.reason) == ("redis", "certain", "it runs redis-server")
    guess = recognise(application, "other", types)
    assert guess is not None
    assert (guess.type, guess.certainty) == ("redis", "a guess")


def test_a_program_may_have_a_version_at_its_end(tmp_path: Path) -> None:
    facts = ImageFacts(command=("/usr/sbin/php-fpm8.2", "--nodaemonize"))
    application = described(tmp_path, "services: {php: {image: me/php}}\n", {"php": facts})
    match = recognise(application, "php", load_service_types())
    assert match is not None
    assert (match.type, match.certainty) == ("php-fpm", "certain")
    store = described(tmp_path, "services: {store: {image: me/store, command: [etcd, --name=node1]}}\n", {})
    assert recognise(store, "store", load_service_types()) is None, "node1 is no version of node"


@pytest.mark.parametrize(
    ("image", "path"),
    [
        ("redis", "redis"),
        ("redis:7@sha256:0", "redis"),
        ("docker.io/library/redis:7", "library/redis"),
        ("localhost:5000/redis", "redis"),
        ("bitnami/redis:7.2", "bitnami/redis"),
    ],
)
def test_an_image_s_path(image: str, path: str) -> None:
    assert image_path(image) == path


@pytest.mark.parametrize(
    ("programs", "kind", "certainty"),
    [
        (["tini", "java"], "jvm", "certain"),
        (["python3", "gunicorn"], "python-gunicorn", "certain"),
        ([GO_PROGRAM], "go", "likely"),
        (["traefik", GO_PROGRAM], "traefik", "certain"),
    ],
)
def test_programs_that_run_count(tmp_path: Path, programs: list[str], kind: str, certainty: str) -> None:
    application = described(tmp_path, "services: {app: {image: me/app}}\n")
    match = recognise(application, "app", load_service_types(), programs)
    assert match is not None
    assert (match.type, match.certainty) == (kind, certainty)
    assert recognise(application, "app", load_service_types(), ["own-server"]) is None


def test_roles_calls_and_entry(tmp_path: Path) -> None:
    proposal = proposed(tmp_path)
    roles = {name: part.role for name, part in proposal.parts.items() if part.role != "service"}
    assert roles == {
        "migrate": "one-shot",
        "loadgenerator": "load generator",
        "grafana": "monitoring",
        "jaeger": "tracing",
    }
    assert proposal.parts["api"].calls == ("db", "cache")
    assert proposal.parts["frontend"].calls == ("api",)
    assert proposal.entry is not None
    assert (proposal.entry.service, proposal.entry.port, proposal.entry.certain) == ("frontend", 80, False)
    assert proposal.left_out == ("loadgenerator", "grafana")
    assert proposal.spans == {"service": "jaeger"}
    assert any("frontend (" in doubt and "as it is of admin)" in doubt for doubt in proposal.doubts)


@pytest.mark.parametrize(
    ("ports", "address"),
    [
        ("['8080:80']", "localhost:8080"),
        ("['127.0.0.1:8081:80/tcp', '90:91']", "localhost:8081"),
        ("['80:80']", "localhost"),
        ("['443:443']", "localhost"),
        ("[{target: 80, published: '8082'}]", "localhost:8082"),
        ("['80']", ""),
    ],
)
def test_the_front_page_is_asked_for_as_a_browser_does(tmp_path: Path, ports: str, address: str) -> None:
    text = f"services: {{web: {{image: 'nginx:1.25', ports: {ports}}}}}\n"
    proposal = propose(described(tmp_path, text), load_service_types())
    (request,) = YAML(typ="safe").load(workload_text(proposal))["requests"]
    assert request.get("headers", {}).get("Host", "") == address
    assert (request["path"], request["follow"]) == ("/", True)


def test_the_name_of_a_user_or_a_database_is_no_call(tmp_path: Path) -> None:
    text = (
        "services:\n  shop: {image: me/shop, ports: ['80:80'], environment: {DB_HOST: db}}\n"
        "  db: {image: 'postgres:16', environment: {POSTGRES_USER: shop, POSTGRES_DB: shop, POSTGRES_PASSWORD: shop}}\n"
    )
    proposal = proposed(tmp_path, text)
    assert proposal.parts["db"].calls == ()
    assert proposal.parts["shop"].calls == ("db",)
    assert proposal.entry is not None
    assert proposal.entry.certain


def test_one_published_port_leaves_no_doubt(tmp_path: Path) -> None:
    entry = proposed(tmp_path, SHOP.replace("ports: ['9000:9000'], ", "")).entry
    assert entry is not None
    assert entry.certain


def test_a_database_is_no_entry(tmp_path: Path) -> None:
    proposal = proposed(tmp_path, "services: {db: {image: 'postgres:16', ports: ['5432:5432']}}\n")
    assert proposal.entry is None
    assert "No service was found that clients call: set workload.target." in proposal.doubts


def test_the_files_that_are_written_can_be_read(tmp_path: Path) -> None:
    proposal = proposed(tmp_path)
    target = tmp_path / "tailor"
    target.mkdir()
    (target / "application.yaml").write_text(application_text(proposal, ["../compose.yaml"], [], []))
    (target / "workload.yaml").write_text(workload_text(proposal))
    application = load_application(target)
    assert {s.name: s.type for s in application.services if s.type} == {
        "frontend": "nginx", "db": "postgresql", "cache": "redis", "jaeger": "jaeger",
    }  # fmt: skip
    assert application.hosts == ("local",)
    assert application.workload.target == "http://frontend:80"
    assert "grafana" not in application.compose["services"]
    assert application.tracing is not None
    assert application.base == tmp_path


def test_a_proposal_without_any_type_can_be_read(tmp_path: Path) -> None:
    text = "services: {web: {image: me/own, ports: ['80']}}\n"
    proposal = propose(described(tmp_path, text), load_service_types())
    assert proposal.unknown == ("web",)
    (tmp_path / "application.yaml").write_text(application_text(proposal, ["compose.yaml"], [], []))
    (tmp_path / "workload.yaml").write_text(workload_text(proposal))
    assert load_application(tmp_path).services[0].type == ""


def test_reasons_are_comments_whatever_stands_before_them(tmp_path: Path) -> None:
    long = "a-service-with-a-name-that-nearly-fills-the-line-of-a-file"
    text = f"services: {{{long}: {{image: 'nginx:1.25', ports: ['80:80']}}, b: {{image: 'redis:7'}}}}\n"
    lines = application_text(proposed(tmp_path, text), ["compose.yaml"], [], []).splitlines()
    assert all("  # " in line for line in lines if "certain: " in line)
    assert f"  {long}: {{type: nginx}}  # certain: its image is nginx:1.25" in lines


def test_the_social_network_is_understood_from_its_compose_file_alone(tmp_path: Path) -> None:
    ours = ROOT / "apps" / "social-network"
    shutil.copytree(ours, tmp_path / "shop", ignore=lambda where, names: ["application.yaml", "internal", "cmd"])
    compose = tmp_path / "shop" / "compose.yaml"
    proposal = proposed(tmp_path, compose.read_text())
    target = tmp_path / "shop" / "tailor"
    target.mkdir()
    (target / "application.yaml").write_text(application_text(proposal, ["../compose.yaml"], [], []))
    (target / "workload.yaml").write_text(workload_text(proposal))
    understood, known = load_application(target), load_application(ours)
    for field in ("hosts", "entry"):
        assert getattr(understood, field) == getattr(known, field)
    assert understood.workload.target == known.workload.target
    assert understood.tracing is not None
    assert known.tracing is not None
    assert understood.tracing.service == known.tracing.service
    assert understood.hooks == known.hooks
    assert [(s.name, s.type, s.host, s.tuned) for s in understood.services if s.type] == [
        (s.name, s.type, s.host, s.tuned) for s in known.services if s.type
    ]


# --------------------------------------------------------------------------- workloads

FILES = {
    "openapi": json.dumps({
        "openapi": "3.0.0", "servers": [{"url": "http://x/v1"}],
        "paths": {"/items/{id}": {"parameters": [{"name": "id", "in": "path", "schema": {"example": 7}}],
                                  "get": {}, "delete": {}},
                  "/items": {"get": {"parameters": [{"name": "page", "in": "query", "required": True}]},
                             "post": {"requestBody": {"content": {"application/json": {"example": {"a": 1}}}}}}},
    }),
    "access-log": (
        '1.2.3.4 - - [01/Jan/2026:00:00:00 +0000] "GET /a?b=1 HTTP/1.1" 200 5 "-" "x"\n' * 3
        + '1.2.3.4 - - [01/Jan/2026:00:00:00 +0000] "GET /style.css HTTP/1.1" 200 5\n'
        + '1.2.3.4 - - [01/Jan/2026:00:00:00 +0000] "GET /none HTTP/1.1" 404 5\n'
        + '1.2.3.4 - - [01/Jan/2026:00:00:00 +0000] "POST /b HTTP/1.1" 201 5\n'
    ),
    "har": json.dumps({"log": {"entries": [
        {"request": {"method": "GET", "url": "https://shop.example/a", "headers": []}},
        {"request": {"method": "GET", "url": "https://shop.example/a.png", "headers": []}},
        {"request": {"method": "POST", "url": "https://shop.example/b", "postData": {"text": "{}"},
                     "headers": [{"name": "Content-Type", "value": "application/json"}]}},
        {"request": {"method": "GET", "url": "https://cdn.example/x", "headers": []}},
    ]}}),
    "k6": "import http from 'k6/http';\nexport default () => {http.get(`${BASE}/a`); http.post('http://h/b', '') }\n",
    "locust": (
        "class U(HttpUser):\n    @task(3)\n    def a(self):\n        self.client.get('/a')\n"
        "    @task\n    def b(self):\n        self.client.post(f'/b/{self.x}', json={})\n"
    ),
    "wrk2": 'wrk.method = "POST"\nrequest = function() return wrk.format("GET", "/a") end\nwrk.path = "/b"\n',
    "jmeter": (
        '<jmeterTestPlan><HTTPSamplerProxy><stringProp name="HTTPSampler.path">a</stringProp>'
        '<stringProp name="HTTPSampler.method">POST</stringProp></HTTPSamplerProxy></jmeterTestPlan>'
    ),
    "vegeta": "GET http://h/a\nContent-Type: x\n\nPOST http://h/b\n",
    "jaeger": json.dumps({"data": [{"spans": [
        {"references": [], "tags": [{"key": "http.method", "value": "GET"}, {"key": "http.target", "value": "/a"}]},
        {"references": [{}], "tags": [{"key": "http.method", "value": "GET"}, {"key": "http.target", "value": "/no"}]},
    ]}]}),
}  # fmt: skip
EXPECTED = {
    "openapi": {"GET /v1/items/7": 1, "DELETE /v1/items/7": 1, "GET /v1/items?page=1": 1, "POST /v1/items": 1},
    "access-log": {"GET /a?b=1": 3, "POST /b": 1},
    "har": {"GET /a": 1, "POST /b": 1},
    "k6": {"GET /a": 1, "POST /b": 1},
    "locust": {"GET /a": 3, "POST /b/1": 1},
    "wrk2": {"GET /a": 1, "POST /b": 1},
    "jmeter": {"POST /a": 1},
    "vegeta": {"GET /a": 1, "POST /b": 1},
    "jaeger": {"GET /a": 1},
}


@pytest.mark.parametrize("kind", SOURCES)
def test_requests_of_what_the_user_has(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    path.write_text(FILES[kind])
    found = requests_of(f"{kind}:{path}")
    assert {f"{request.method} {request.path}": request.weight for request in found} == EXPECTED[kind]
    assert len({request.name for request in found}) == len(found)


@pytest.mark.parametrize("kind", SOURCES)
def test_another_file_is_refused_by_its_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    path.write_text("<a/>" if kind == "jmeter" else "[]")
    with pytest.raises(FileError):
        requests_of(f"{kind}:{path}")


def test_an_unknown_source_names_the_known_ones() -> None:
    with pytest.raises(FieldError, match="openapi:FILE"):
        requests_of("postman:x")


def test_a_workload_from_a_file_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "spec").write_text(FILES["openapi"])
    application = described(tmp_path, SHOP)
    proposal = propose(application, load_service_types(), requests_of(f"openapi:{tmp_path / 'spec'}"))
    target = tmp_path / "tailor"
    target.mkdir()
    (target / "application.yaml").write_text(application_text(proposal, ["../compose.yaml"], [], []))
    (target / "workload.yaml").write_text(workload_text(proposal))
    requests = load_application(target).workload.document["requests"]
    assert {request["name"]: request.get("body") for request in requests}["post-v1-items"] == '{{"a": 1}}'
