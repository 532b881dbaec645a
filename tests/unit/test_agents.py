"""Agents are fetched once, whole or not at all; what a registry sends is compared with the digest that is known."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from framework.errors import MissingPrerequisite
from framework.model import Tracing
from framework.testbeds.docker.agents import SITE, ensure_agents, fetch, fetch_java, missing_agents
from tests.unit.test_traces_jaeger import application, served


def test_an_agent_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    said: list[str] = []

    def broken(directory: Path) -> None:
        (directory / "half").touch()
        raise MissingPrerequisite("the line is cut", "try again")

    target = tmp_path / "agents" / "java-1"
    with pytest.raises(MissingPrerequisite, match="the line is cut"):
        fetch("java", target, said.append, broken)
    assert list(target.parent.iterdir()) == []
    fetch("java", target, said.append, lambda directory: (directory / "agent.jar").touch())
    assert [path.name for path in target.parent.iterdir()] == ["java-1"]
    assert target.stat().st_mode & 0o777 == 0o755, "services may run as any user"
    assert said == [f"fetching the OpenTelemetry agent java-2.20.1 into {target}"] * 2


def test_one_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "java-1", tmp_path / "node-1"
    here.mkdir()
    shop = replace(application(1), tracing=Tracing("jaeger", instrument={"a": "java"}), agents={"a": here})
    ensure_agents(shop, lambda step: pytest.fail(step))
    assert missing_agents(shop) == []
    assert missing_agents(replace(shop, agents={"a": here, "b": elsewhere, "c": elsewhere})) == ["node-1"]


@pytest.mark.parametrize(
    ("status", "text"),
    [(200, r"has the SHA-256 [0-9a-f]{64}, not d94e9fc6"), (404, r"(?s)javaagent-2.*jar answers 404.*put http")],
)
def test_something_else_than_the_agent_is_refused(tmp_path: Path, status: int, text: str) -> None:
    with served(lambda *_: (status, b"an advertisement")) as port, pytest.raises(MissingPrerequisite, match=text):
        fetch("java", tmp_path / "java-1", lambda step: None, partial(fetch_java, registry=f"http://127.0.0.1:{port}"))
    assert list(tmp_path.iterdir()) == []


def test_pythons_own_packages_go_first() -> None:
    compile(SITE, "sitecustomize.py", "exec")
    assert SITE.index("sys.path.append") < SITE.index("initialize()")
