"""Removes what runs for a project: containers, networks and working volumes, all of which bear its label.

Kept data (label tailor.seed) stay.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from framework.errors import DeploymentFailed, InputError
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.owner import PROJECT, SEED, Owner
from framework.testbeds.docker.volumes import FROM

ROUNDS = 10
PAUSE_S = 0.2  # what was in the making when it was cut off shows up in a later round


def clean(engine: Engine, project: str) -> list[str]:
    """Remove everything of ``project`` but kept data; returns what was removed."""
    settle(engine, project)
    removed: dict[str, None] = {}  # in order, each once
    problem: DeploymentFailed | None = None
    for _ in range(ROUNDS):
        found: list[str] = []
        try:
            _round(engine, project, found)
            problem = None
        except DeploymentFailed as error:  # the engine is still busy with what something else began
            problem = error
        removed |= dict.fromkeys(found)
        if not found and problem is None:
            return list(removed)
        time.sleep(PAUSE_S)
    if problem is not None:
        raise problem
    return list(removed)


def projects(engine: Engine) -> set[str]:
    """Every project of which a container, a network or a volume is there."""
    labelled: list[Mapping[str, str]] = [container.labels for container in engine.containers(PROJECT)]
    labelled += [network.get("Labels") or {} for network in engine.networks(PROJECT)]
    labelled += [volume.get("Labels") or {} for volume in engine.volumes(PROJECT)]
    return {labels[PROJECT] for labels in labelled if PROJECT in labels}


def settle(engine: Engine, project: str) -> None:
    """Wait until no container of ``project`` appears or starts any more: the engine ends what a killed compose began.

    One that is removed while it starts may leave its place in a network counted (engines before 28), which then cannot
    be removed until the engine is restarted.
    """
    seen: dict[str, str] = {}
    for _ in range(ROUNDS):
        there = {one.id: one.state for one in engine.containers(str(Owner.project(project)))}
        if there == seen or not {"created", "restarting"} & set(there.values()):
            return
        seen = there
        time.sleep(PAUSE_S)


def _round(engine: Engine, project: str, removed: list[str]) -> None:
    """Remove what is there now, adding its names to ``removed``.  Raises DeploymentFailed when something resists."""
    owner = Owner.project(project)
    containers = engine.containers(str(owner))
    engine.remove((container.id for container in containers), owner)
    removed += [f"container {container.name}" for container in containers]
    networks = {network["Id"]: network["Name"] for network in engine.networks(str(owner))}
    done = in_parallel(lambda network: engine.remove_network(network, owner), networks)
    removed += [f"network {name}" for name, went in zip(networks.values(), done, strict=True) if went]
    volumes = {volume["Name"]: volume.get("Labels") or {} for volume in engine.volumes(str(owner))}
    working = [name for name, labels in volumes.items() if SEED not in labels]
    for layered in (True, False):  # what lies over other volumes goes before them
        going = [name for name in working if (FROM in volumes[name]) is layered]
        done = in_parallel(lambda name: _went(engine, name, owner), going)
        removed += [f"volume {name}" for name, went in zip(going, done, strict=True) if went]


def _went(engine: Engine, volume: str, owner: Owner) -> bool:
    """Whether a volume was removed; one that somebody else's container uses stays."""
    try:
        engine.remove_volume(volume, owner)
    except InputError:
        return False
    return True
