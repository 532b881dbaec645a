"""Clean-up of a project on every node of a swarm: only what bears its label."""

from __future__ import annotations

import time

from framework.errors import DeploymentFailed, TestbedUnavailable
from framework.testbeds.docker import cleanup
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.owner import PROJECT, Owner
from framework.testbeds.swarm.fleet import Node, Swarm

GONE_S = 30.0
PAUSE_S = 0.1


def projects(swarm: Swarm) -> set[str]:
    """Return every project that has something on the swarm or on one of its nodes."""
    return swarm.manager.projects(PROJECT).union(*(cleanup.projects(node.engine) for node in swarm.nodes))


def remove_containers(swarm: Swarm, project: str) -> list[str]:
    """Remove a project's services and all its containers, and wait until they are gone; return the services."""
    owner = Owner.project(project)
    removed = [f"service {name}" for name in swarm.manager.remove_services(owner)]

    def empty(node: Node) -> None:
        deadline = time.monotonic() + GONE_S
        while True:
            listed = node.engine.containers(str(owner))
            if not listed:
                return
            node.engine.remove((container.id for container in listed), owner)
            if time.monotonic() > deadline:
                raise DeploymentFailed(f"containers of {project} stay on node {node}")
            time.sleep(PAUSE_S)

    in_parallel(empty, swarm.nodes)
    return removed


def renew(swarm: Swarm, project: str) -> None:
    """Remove a project's containers, services and networks: its next ones are strangers to every node.

    A network that stays is left and joined by a node at the same moment, and then lacks what the others told meanwhile.
    Raises TestbedUnavailable where a network stays: somebody else's container may be on it.
    """
    remove_containers(swarm, project)
    try:
        swarm.manager.remove_networks(Owner.project(project))
    except DeploymentFailed as error:
        raise TestbedUnavailable(f"a network of the deployment before stays: {error}") from error


def clean(swarm: Swarm, project: str) -> list[str]:
    """Remove everything of a project on every node but kept datasets; return what was removed.

    Raises TestbedUnavailable, after the other nodes are clean, where one is lost: what it has stays until it is back
    and this is called again.
    """
    removed = remove_containers(swarm, project)
    removed += swarm.manager.remove_rest(Owner.project(project))
    cleaned = in_parallel(lambda node: [f"{name} on {node.host or node.name}" for name in
                                        cleanup.clean(node.engine, project)], swarm.nodes)  # fmt: skip
    removed += [name for names in cleaned for name in names]
    if swarm.lost:
        lost = "; ".join(swarm.lost)
        raise TestbedUnavailable(f"the other nodes are clean; run `tailor clean` when these are back: {lost}")
    return removed
