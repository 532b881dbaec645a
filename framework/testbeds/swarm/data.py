"""Data on the nodes of a swarm: a volume lives on the node of its services, and so does the copy that is kept of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from framework.errors import DeploymentFailed
from framework.model import Application, Deployment, Hook, Running
from framework.ports.testbed import Progress
from framework.testbeds.docker.datasets import Datasets, identity, seed_lock
from framework.testbeds.docker.document import Wanted
from framework.testbeds.docker.images import image_ids
from framework.testbeds.docker.owner import Owner
from framework.testbeds.docker.volumes import Dataset, WorkingVolumes
from framework.testbeds.swarm.fleet import Node
from framework.testbeds.swarm.members import Members

STOP_S = 30


class Deployer(Protocol):
    """The part of the testbed that makes data."""

    def deploy(self, deployment: Deployment, progress: Progress) -> Running: ...

    def run_hook(self, running: Running, hook: Hook) -> str: ...

    def clean(self, project: str, *, data: bool = False) -> Sequence[str]: ...


class SwarmData:
    """Working volumes and kept datasets, node by node."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._loaded: dict[str, dict[str, Dataset]] = {}  # application -> id of a node -> its part of the data
        self._volumes: dict[str, WorkingVolumes] = {}

    def restore(self, deployment: Deployment, want: Wanted, nodes: Mapping[str, Node]) -> str:
        """Reset the volumes on every node to the data that a repetition starts from; return how.

        Raises DeploymentFailed.
        """
        methods: set[str] = set()
        loaded = self._loaded.get(deployment.application, {})
        for node, part in parts(want, nodes):
            volumes = self._volumes.setdefault(node.id, WorkingVolumes(node.engine))
            methods.add(volumes.reset(deployment.project, part, loaded.get(node.id)))
        return ",".join(sorted(methods)) or "empty"

    def load(
        self,
        application: Application,
        default: Deployment,
        want: Wanted,
        nodes: Mapping[str, Node],
        members: Members,
        deployer: Deployer,
        progress: Progress,
    ) -> None:
        """Load what the seed hook makes; make it where a node does not have its part.  Raises TrialFailed."""
        self._loaded.pop(application.name, None)
        hook, shares = application.hooks.seed, parts(want, nodes)
        if hook is None or not shares:
            return
        # The nodes are part of the identity: on other nodes the data would have to be made there.
        ids = image_ids(members.engine, want)
        places = " ".join(f"{key}={node.id}" for node, part in shares for key in part.volumes)
        data = _at(identity(application, want, ids, default.project), places)
        with seed_lock(self._home, application.name):
            kept = {node.id: Datasets(node.engine).find(application.name, data, part.volumes)
                    for node, part in shares}  # fmt: skip
            if None in kept.values():
                kept = {**self._make(application.name, default, shares, data, hook, members, deployer, progress)}
        self._loaded[application.name] = {node: dataset for node, dataset in kept.items() if dataset is not None}

    def _make(
        self, name: str, default: Deployment, shares: Sequence[tuple[Node, Wanted]], data: str, hook: Hook,
        members: Members, deployer: Deployer, progress: Progress,
    ) -> dict[str, Dataset]:  # fmt: skip
        project = default.project
        try:
            running = deployer.deploy(replace(default, fresh="all"), progress)
            progress(f"seeding {name}")
            deployer.run_hook(running, hook)
            progress("keeping the data")
            holders = {service for _, part in shares for services in part.holders.values() for service in services}
            owner = Owner.project(project)
            for service in holders:
                for container in running.containers[service].replicas:
                    # A service whose container ends is not started again: its restart policy is that of the file.
                    members.engine.engine_of(container.id).stop([container.id], STOP_S, owner)
            return {node.id: Datasets(node.engine).keep(name, data, part, project) for node, part in shares}
        finally:
            deployer.clean(project)

    def remove(self, nodes: Sequence[Node]) -> list[str]:
        """Remove the kept data on these nodes; return "NAME on HOST"."""
        self._loaded.clear()
        return [f"{name} on {node.host or node.name}" for node in nodes for name in Datasets(node.engine).remove()]


def parts(want: Wanted, nodes: Mapping[str, Node]) -> list[tuple[Node, Wanted]]:
    """Return each node with its own volumes.  Raises DeploymentFailed for a volume of services on several nodes."""
    by_node: dict[str, tuple[Node, dict[str, str]]] = {}
    for key, name in want.volumes.items():
        there = {nodes[service].id: nodes[service] for service in want.holders[key] if service in nodes}
        if len(there) > 1:
            users = ", ".join(want.holders[key])
            raise DeploymentFailed(f"volume {key} is used on several hosts, by {users}: place them on one host")
        for node in there.values():
            by_node.setdefault(node.id, (node, {}))[1][key] = name
    listed = []
    for node, volumes in by_node.values():
        images = {service: want.images[service] for service in nodes if nodes[service].id == node.id}
        listed.append((node, replace(want, volumes=volumes, holders={key: want.holders[key] for key in volumes},
                                     images=images)))  # fmt: skip
    return listed


def _at(data: str, places: str) -> str:
    """Return the identity of data that are made on these nodes."""
    return hashlib.sha256(f"{data} {places}".encode()).hexdigest()[:12]
