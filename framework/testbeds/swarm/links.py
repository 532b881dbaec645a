"""Links between a swarm's nodes, measured on an overlay network of Tailor's own, and kept while the nodes are the same.

Every node gets two containers: links within a node lead from one to the other.  Of many nodes, each is measured to
some of the others, so that the time grows with their number and not with its square.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from framework.config.reading import read_text
from framework.config.writing import to_yaml, write_text
from framework.errors import FileError, TestbedUnavailable
from framework.model.documents import decode, encode
from framework.model.links import Link
from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.generators import GENERATOR
from framework.testbeds.docker.owner import Owner
from framework.testbeds.swarm import clean
from framework.testbeds.swarm.agents import started
from framework.testbeds.swarm.fleet import Node, Swarm
from framework.testbeds.swarm.images import Images
from framework.testbeds.swarm.overlay import wait_until_known
from framework.testbeds.swarm.relay import PROGRAM
from framework.testbeds.swarm.stack import ROLE, agent

FILE = "links.json"
VERSION = 1
TARGET, ORIGIN = "target", "origin"
OTHERS = 4  # nodes that a node is measured to, besides itself


@dataclass(frozen=True, slots=True)
class _Kept:
    """Content of the file.  ``nodes``: ids of the nodes with their hosts, as they were measured."""

    version: int
    nodes: tuple[tuple[str, str], ...]
    links: tuple[Link, ...]


def kept(home: Path, nodes: Sequence[Node]) -> tuple[Link, ...]:
    """Return the links that were measured between these nodes; none where there is no such file."""
    try:
        read = decode(_Kept, json.loads(read_text(home / FILE)))
    except (FileError, ValueError, TypeError, KeyError, AttributeError):
        return ()  # to be measured
    return read.links if (read.version, read.nodes) == (VERSION, _identities(nodes)) else ()


def keep(home: Path, nodes: Sequence[Node], links: Sequence[Link]) -> None:
    """Keep the links that were measured between these nodes.  Raises InputError where the file cannot be written."""
    write_text(home / FILE, json.dumps(encode(_Kept(VERSION, _identities(nodes), tuple(links))), indent=1) + "\n")


def links_of(home: Path, swarm: Swarm, lock: Callable[[str], AbstractContextManager[None]]) -> tuple[Link, ...]:
    """Return the links between a swarm's hosts: those that are kept, or measured now.  None of a single node.

    ``lock``: marks a project as this TAILOR_HOME's, so that `tailor clean` knows what a killed process left of it.
    Raises MissingPrerequisite, DeploymentFailed, TestbedUnavailable.
    """
    if swarm.single is not None:
        return ()
    project = f"tailor-links-{uuid4().hex[:8]}"
    if known := kept(home, swarm.nodes):
        return known
    with lock(project):
        return _measured(home, swarm, project)


def _measured(home: Path, swarm: Swarm, project: str) -> tuple[Link, ...]:
    """Measure the links and keep them; leave no container and no network."""
    nodes = [node for node in swarm.nodes if node.host]
    ids = Images(Engine(), Connection()).distribute({node.id: {GENERATOR} for node in nodes}, nodes, lambda step: None)
    labels = Owner.project(project).marked({})
    services = {f"{role}-{number}": agent(node.id, ids[GENERATOR], ["-peer"], {**labels, ROLE: role}, ["overlay"])
                for role in (TARGET, ORIGIN) for number, node in enumerate(nodes, 1)}  # fmt: skip
    network = {"driver": "overlay", "name": f"{project}_overlay", "labels": labels}
    try:
        file = write_text(home / "run" / project / "stack.yaml", to_yaml(
            {"version": "3.8", "services": services, "networks": {"overlay": network}}
        ))  # fmt: skip
        swarm.manager.deploy(project, file)
        targets, origins = (started(project, nodes, role) for role in (TARGET, ORIGIN))
        addresses = [_address(node, targets[node.id], f"{project}_overlay") for node in nodes]
        there = {f"{TARGET}-{number}": [address] for number, address in enumerate(addresses, 1)}
        wait_until_known(nodes, origins, lambda: there)
        # One after the other: they share machines and wires.
        links = tuple(_link(nodes[a], origins[nodes[a].id], nodes[b], addresses[b]) for a, b in pairs(len(nodes)))
    finally:
        clean.clean(swarm, project)
        shutil.rmtree(home / "run" / project, ignore_errors=True)
    keep(home, swarm.nodes, links)
    return links


def pairs(count: int) -> Iterator[tuple[int, int]]:
    """Yield the links that are measured among ``count`` nodes: from each to itself and to the next ``OTHERS``."""
    for origin in range(count):
        for step in range(min(count, OTHERS + 1)):
            yield origin, (origin + step) % count


def _identities(nodes: Sequence[Node]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((node.id, node.host) for node in nodes))


def _address(node: Node, container: str, network: str) -> str:
    about = node.engine.inspect(container) or {}
    address = ((about.get("NetworkSettings") or {}).get("Networks") or {}).get(network, {}).get("IPAddress")
    if not address:
        raise TestbedUnavailable(f"node {node}: its container has no address on the overlay network")
    return str(address)


def _link(origin: Node, container: str, target: Node, address: str) -> Link:
    code, output = origin.engine.execute(container, [PROGRAM, "-link", address])
    if code != 0:
        raise TestbedUnavailable(f"node {target} is not reached from node {origin}: {output.strip()[-200:]}")
    told = json.loads(output)
    return Link(origin.host, target.host, float(told["rtt_us"]) / 1e3, float(told["mbps"]))
