"""Containers of Tailor's on the nodes: they read each machine's counters, and lead to the overlay network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framework.errors import DeploymentFailed
from framework.testbeds.docker.connection import Connection, in_parallel
from framework.testbeds.docker.generators import GENERATOR
from framework.testbeds.docker.owner import Owner
from framework.testbeds.swarm.fleet import Node
from framework.testbeds.swarm.relay import PROGRAM

HERTZ = 100  # USER_HZ of every Linux that Docker supports (proc(5))


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of one machine [s].  ``boot``: tells machines apart."""

    boot: str
    busy_s: float
    stolen_s: float
    pressure_s: float | None


def name_of(project: str, node: Node) -> str:
    """Return the name of a node's container."""
    return f"{project}-agent-{node.host or node.id}"


def start(project: str, node: Node, networks: Sequence[str], labels: Mapping[str, str]) -> str:
    """Start a node's container on these overlay networks; return its id."""
    container = node.engine.start(
        GENERATOR, ["-hold"], name_of(project, node), Owner.project(project), labels,
        {"network_mode": networks[0] if networks else "none"},
    )  # fmt: skip
    connection = Connection(endpoint=node.endpoint)
    for network in networks[1:]:
        _join(connection, container, network)
    return container


def _join(connection: Connection, container: str, network: str) -> None:
    connection.ask("join a network", lambda api: api.connect_container_to_network(container, network))


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
