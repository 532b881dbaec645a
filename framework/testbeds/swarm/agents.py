"""Containers of Tailor's on the nodes: they read each machine's counters, and lead to the overlay network."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framework.errors import DeploymentFailed, TestbedUnavailable
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.owner import Owner
from framework.testbeds.swarm.fleet import Node
from framework.testbeds.swarm.relay import PROGRAM
from framework.testbeds.swarm.stack import AGENT, ROLE

START_S = 60.0
PAUSE_S = 0.1
HERTZ = 100  # USER_HZ of every Linux that Docker supports (proc(5))


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of one machine [s].  ``boot``: tells machines apart."""

    boot: str
    busy_s: float
    stolen_s: float
    pressure_s: float | None


def started(project: str, nodes: Sequence[Node], role: str = AGENT) -> dict[str, str]:
    """Wait for a project's containers of a role, one on each node; return id of a node -> its container.

    Raises TestbedUnavailable, naming the node that does not start it.
    """
    deadline = time.monotonic() + START_S

    def find(node: Node) -> str:
        while True:
            listed = node.engine.containers(str(Owner.project(project)))
            here = [c.id for c in listed if c.labels.get(ROLE) == role and c.state == "running"]
            if here:
                return here[0]
            if time.monotonic() > deadline:
                raise TestbedUnavailable(f"node {node} does not start Tailor's container within {START_S:g} s")
            time.sleep(PAUSE_S)

    return dict(zip((node.id for node in nodes), in_parallel(find, nodes), strict=True))


def read(containers: Mapping[str, str], nodes: Sequence[Node]) -> list[Counters]:
    """Return the counters of every node.  ``containers``: id of a node -> its container.  Raises DeploymentFailed."""

    def ask(node: Node) -> Counters:
        code, output = node.engine.execute(containers[node.id], [PROGRAM, "-counters"])
        if code != 0:
            raise DeploymentFailed(f"node {node} does not tell its counters: {output.strip()[-200:]}")
        return parsed(json.loads(output))

    return in_parallel(ask, nodes)


def parsed(told: Mapping[str, Any]) -> Counters:
    """Return counters from the text of the kernel's files."""
    ticks = [int(word) for word in str(told["stat"]).split()[1:]]
    user, nice, system, _idle, _wait, irq, softirq = ticks[:7]
    total = [part.partition("=")[2] for part in str(told["pressure"]).split() if part.startswith("total=")]
    return Counters(
        str(told["boot"]),
        (user + nice + system + irq + softirq) / HERTZ,
        (ticks[7] if len(ticks) > 7 else 0) / HERTZ,
        int(total[0]) / 1e6 if total else None,
    )
