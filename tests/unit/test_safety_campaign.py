"""The campaign of experiments/safety in short: the same code with some hundreds of requests, documents and archives.

The limit of a second for health is the campaign's own: here nothing depends on how fast the machine is.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from experiments.safety import archive_campaign, http_campaign
from experiments.safety.compose_campaign import ComposeCampaign, docker_compose
from experiments.safety.judging import Judge
from experiments.safety.reach import problems
from experiments.safety.scenes import SHORT
from experiments.safety.wire import Answer, Connection, Request
from tests.serving import Here, serving

HEALTH_S = 30.0
PROBLEM = (("content-type", "application/problem+json"),)


@pytest.mark.slow
def test_hostile_requests_find_nothing() -> None:
    report = http_campaign.campaign(400, seed=1, size=SHORT, rounds=2)
    assert report["findings"] == []
    assert report["found"] == 0
    assert report["requests"] >= 400
    assert report["memory_mib"]["samples"] > 0
    assert 100 < report["memory_mib"]["of_one_process"] < 1024
    assert report["health"]["asked"] > 0
    assert report["health"]["slowest_s"][0] < HEALTH_S
    assert report["ready"]["slowest_s"][0] < HEALTH_S
    assert {"200", "201", "404", "422", "429"} <= report["by_status"].keys(), "of each kind there was some"


@pytest.mark.slow
def test_hostile_compose_documents_do_not_reach_the_host(tmp_path: Path) -> None:
    report = ComposeCampaign(tmp_path, docker_compose(), sample=20).run(500, seed=1)
    assert report["findings"] == []
    assert report["found"] == 0
    assert report["documents"] == 500
    assert report["outcomes"]["refused"] > 100, "most of them ask for something"
    assert report["outcomes"]["written"] > 50, "and many are harmless: what is judged is not nothing"
    if docker_compose() is not None:
        assert report["asked_docker_compose"]["understood"] > 10


@pytest.mark.slow
def test_spoilt_archives_change_nothing() -> None:
    report = archive_campaign.campaign(200, seed=1)
    assert report["findings"] == []
    assert report["found"] == 0
    assert report["archives"] == 200
    assert sum(count for what, count in report["outcomes"].items() if what.endswith(": refused")) > 100
    assert sum(count for what, count in report["outcomes"].items() if what.endswith(": imported")) > 10
    assert report["memory_mib"] < 1024


# ------------------------------------------------------------------ the campaign itself sees what it looks for


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(200, (), b"{}"), []),
        (Answer(200, (), b"... canary1 ..."), ["it contains canary1"]),
        (Answer(200, (("location", "/canary1"),), b""), ["it contains canary1"]),
        (Answer(200, (), b"packed", (b"canary1",)), ["it contains canary1"]),
        (Answer(200, (), b"Traceback (most recent call last)"), ["it says b'Traceback'"]),
        (Answer(422, PROBLEM, b"{}"), []),
        (Answer(422, (("content-type", "text/html"),), b""), ["a refusal that is text/html"]),
        (Answer(500, PROBLEM, b'{"detail": "this is a bug of Tailor"}'), ["500"]),
        (Answer(503, PROBLEM, b'{"detail": "too many watchers"}'), []),
        (Answer(503, PROBLEM, b'{"detail": "the disk below TAILOR_HOME is full"}'), ["503"]),
    ],
)
def test_the_judge_of_answers(answer: Answer, says: list[str]) -> None:
    judge = Judge(["canary1"])
    judge.look(Request("GET /", "GET", b"/"), answer)
    assert [finding["problem"] for finding in judge.findings] == says
    assert judge.requests == 1


HOSTILE: list[dict[str, Any]] = [
    {"privileged": True}, {"network_mode": "host"}, {"pid": "container:x"}, {"ipc": "host"}, {"userns_mode": "host"},
    {"devices": ["/dev/sda"]}, {"cap_add": ["SYS_ADMIN"]}, {"security_opt": ["seccomp:unconfined"]},
    {"ports": ["80:80"]},
    {"volumes": [{"type": "bind", "source": "/etc", "target": "/e", "read_only": True}]}, {"volumes": ["/etc:/e"]},
    {"volumes": [{"type": "bind", "source": "./link/passwd", "target": "/e", "read_only": True}]},
    {"volumes": [{"type": "image", "source": "x", "target": "/e"}]}, {"volumes_from": ["stranger"]},
    {"sysctls": {"kernel.core_pattern": "x"}}, {"extra_hosts": {"x": "host-gateway"}},
    {"logging": {"driver": "syslog"}},
    {"env_file": "/etc/passwd"}, {"restart": "always"}, {"environment": {"A": "canary1"}},
    {"deploy": {"resources": {"reservations": {"devices": [{"capabilities": ["gpu"]}]}}}},
]  # fmt: skip
SECTIONS: list[dict[str, Any]] = [
    {"volumes": {"v": {"external": True, "name": "production"}}}, {"volumes": {"v": {"driver_opts": {"device": "/"}}}},
    {"networks": {"n": {"driver": "host"}}}, {"networks": {"n": {"external": True, "name": "host"}}},
    {"secrets": {"s": {"environment": "X"}}}, {"configs": {"c": {"file": "/etc/passwd"}}}, {"include": ["x"]},
]  # fmt: skip


@pytest.mark.parametrize(
    "document", [{"services": {"a": service}} for service in HOSTILE] + [{"services": {}, **s} for s in SECTIONS]
)
def test_the_judge_of_documents(tmp_path: Path, document: dict[str, Any]) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "link").symlink_to(tmp_path / "outside")

    def judged(compose: dict[str, Any]) -> list[str]:
        own = tmp_path / "own"
        return problems(compose, readable=[own], own=own, project="p", hidden=["canary1"])

    assert judged(document)
    kept = {"type": "bind", "source": "./conf", "target": "/c"}
    volume = {"type": "volume", "source": "v", "target": "/v"}
    services = {"a": {"image": "x", "volumes": [kept, volume], "pid": "service:b"}, "b": {"restart": "on-failure"}}
    assert judged({"services": services, "volumes": {"v": {"external": True, "name": "p_v"}}}) == []


def test_requests_go_over_the_wire_as_they_are_and_archives_are_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, monkeypatch) as here:
        _wire(here)


def _wire(here: Here) -> None:
    connection = Connection(here.client.base_url.port or 0)
    assert connection.send(Request("", "GET", b"/v1/health")).status == 200
    assert connection.send(Request("", "GET", b"/v1/../v1/\x00")).status == 400
    assert connection.send(Request("", "GET", b"/v1/health", ((b"Host", b"evil"),))).status == 421
    assert connection.send(Request("", "POST", b"/v1/studies", ((b"Content-Length", b"-1"),), b"{}")).status == 400
    study = here.launch()
    here.kept.worker.run(until_empty=True)
    packed = connection.send(Request("", "GET", f"/v1/studies/{study}/best.tar.gz".encode()))
    with tarfile.open(fileobj=io.BytesIO(packed.body)) as file:
        assert f"{study}/compose.yaml" in file.getnames()
    assert b"image: nginx" in packed.everything
    assert b"image: nginx" not in packed.body
    whole = connection.send(Request("", "GET", f"/v1/studies/{study}/export".encode()))
    assert b'"tailor study"' in whole.everything
    connection.close()
