"""Waiting until the nodes of a swarm know each other's containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from framework.errors import TestbedUnavailable
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.listed import SERVICE, Listed
from framework.testbeds.swarm.fleet import Node
from framework.testbeds.swarm.overlay import wait_until_known
from framework.testbeds.swarm.way_in import WayIn

WEB, JOB = "web=10.0.1.2,10.0.1.3", "job=10.0.1.4"
RUNNING = {"web": ["10.0.1.2", "10.0.1.3"]}


class PretendEngine:
    """A node that knows something more at each question; ``here``: its containers."""

    def __init__(self, *known: Sequence[str], here: Sequence[Listed] = ()) -> None:
        self.known, self.here = list(known), list(here)
        self.asked: list[list[str]] = []

    def execute(self, container: str, command: Sequence[str]) -> tuple[int, str]:
        self.asked.append(list(command[1:]))
        now = self.known.pop(0) if len(self.known) > 1 else self.known[0]
        return 0, "".join(f"{word}\n" for word in command[2:] if word in now)

    def containers(self, label: str) -> list[Listed]:
        return self.here


def nodes(*engines: PretendEngine) -> list[Node]:
    return [Node(f"host{n}", f"id{n}", "vm", "", f"unix:///{n}", cast(Engine, e)) for n, e in enumerate(engines)]


def wait(running: list[Mapping[str, Sequence[str]]], *engines: PretendEngine, patience_s: float = 20.0) -> None:
    there = nodes(*engines)
    agents = {node.id: f"agent of {node.host}" for node in there}
    wait_until_known(there, agents, lambda: running.pop(0) if len(running) > 1 else running[0], patience_s)


def test_it_waits_until_the_last_node_knows_all() -> None:
    first, last = PretendEngine([WEB]), PretendEngine([], [], [WEB])
    wait([RUNNING], first, last)
    assert first.asked == last.asked == [["-known", WEB]] * 3


def test_a_service_that_ended_is_waited_for_no_more() -> None:
    engine = PretendEngine([WEB])
    wait([{**RUNNING, "job": ["10.0.1.4"]}, RUNNING], engine)
    assert engine.asked == [["-known", JOB, WEB], ["-known", WEB]]


def test_a_node_that_stays_behind_is_named() -> None:
    with pytest.raises(TestbedUnavailable, match=r"node host1 \(unix:///1\) does not know web \(10.0.1.2,10.0.1.3\)"):
        wait([RUNNING], PretendEngine([WEB]), PretendEngine([]), patience_s=0.0)


def test_nothing_is_asked_where_nothing_runs() -> None:
    engine = PretendEngine([])
    wait([{"web": []}], engine)
    assert engine.asked == []


def test_a_container_has_a_name_when_it_is_healthy() -> None:
    """Swarm publishes a name when the health check has passed; a service may need others for that."""
    web = Listed("1", "web.1", "running", "Up 2 seconds", "image", {SERVICE: "web"}, {"net": "10.0.1.2"})
    others = [
        replace(web, id="2", status="Up 2 seconds (healthy)", addresses={"net": "10.0.1.3", "ingress": ""}),
        replace(web, id="3", labels={SERVICE: "db"}, status="Up 2 seconds (health: starting)"),
        replace(web, id="4", labels={SERVICE: "cache"}, status="Up 2 minutes (unhealthy)"),
        replace(web, id="5", labels={SERVICE: "job"}, state="exited", status="Exited (0) 2 seconds ago"),
        replace(web, id="6", labels={}),
    ]
    engine = PretendEngine([WEB], here=[web])
    way_in = WayIn(None)
    way_in._nodes, way_in._agents = tuple(nodes(engine, PretendEngine([WEB], here=others))), {"id0": "a", "id1": "b"}
    way_in.wait_until_known()
    assert engine.asked == [["-known", WEB]]
