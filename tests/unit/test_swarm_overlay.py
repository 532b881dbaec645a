"""Waiting until the nodes of a swarm know each other's containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from framework.errors import TestbedUnavailable
from framework.testbeds.docker.engine import Engine
from framework.testbeds.swarm.fleet import Node
from framework.testbeds.swarm.overlay import Overlay


class PretendEngine:
    """A node that knows something more at each question."""

    def __init__(self, *known: Sequence[str]) -> None:
        self.known = list(known)
        self.asked: list[list[str]] = []

    def execute(self, container: str, command: Sequence[str]) -> tuple[int, str]:
        self.asked.append(list(command[1:]))
        now = self.known.pop(0) if len(self.known) > 1 else self.known[0]
        return 0, "".join(f"{word}\n" for word in command[2:] if word in now)


def overlay(*engines: PretendEngine, patience_s: float = 20.0) -> Overlay:
    nodes = [Node(f"host{n}", f"id{n}", "vm", "", f"unix:///{n}", cast(Engine, e)) for n, e in enumerate(engines)]
    return Overlay(nodes, {node.id: f"agent of {node.host}" for node in nodes}, patience_s)


def test_it_waits_until_the_last_node_knows_every_name() -> None:
    first, last = PretendEngine(["web", "db"]), PretendEngine([], ["web"], ["web", "db"])
    overlay(first, last).wait_for_names(lambda: ["db", "web"])
    assert first.asked == last.asked == [["-resolved", "db", "web"]] * 3


def test_a_service_that_ended_is_waited_for_no_more() -> None:
    engine, running = PretendEngine(["web"]), [["web", "job"], ["web"]]
    overlay(engine).wait_for_names(lambda: running.pop(0))
    assert engine.asked == [["-resolved", "job", "web"], ["-resolved", "web"]]


def test_every_node_has_to_reach_what_one_reaches() -> None:
    """At the second port nothing listens: no node has to reach it."""
    first, last = PretendEngine(["10.0.1.2:80"]), PretendEngine([], ["10.0.1.2:80"])
    assert overlay(first, last).wait_for_listeners(["10.0.1.2:80", "10.0.1.2:81"]) == {"10.0.1.2:80"}
    assert len(last.asked) == 2


def test_a_node_that_stays_behind_is_named() -> None:
    deaf = PretendEngine([])
    with pytest.raises(TestbedUnavailable, match=r"node host1 \(unix:///1\) does not know web on the overlay network"):
        overlay(PretendEngine(["web"]), deaf, patience_s=0.0).wait_for_names(lambda: ["web"])


def test_nothing_is_asked_where_nothing_runs() -> None:
    engine = PretendEngine([])
    overlay(engine).wait_for_names(list)
    assert overlay(engine).wait_for_listeners([]) == set()
    assert engine.asked == []
