"""Clean-up of a project: removes the containers, networks and working volumes that bear its label.

Snapshots of datasets (label tailor.seed) stay.
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
PAUSE_S = 0.2  # something whose creation was cut off shows up in a later round


def clean(engine: Engine, project: str) -> list[str]:
    """Remove everything of ``project`` except snapshots; returns what was removed.

    Raises DeploymentFailed where something still cannot be removed after the last round.
    """
    settle(engine, project)
    removed: dict[str, None] = {}  # an ordered set
    problem: DeploymentFailed | None = None
    for _ in range(ROUNDS):
        gone: list[str] = []
        try:
            _remove_once(engine, project, gone)
            problem = None
        except DeploymentFailed as error:  # the engine is still busy with another client's call
            problem = error
        removed |= dict.fromkeys(gone)
        if not gone and problem is None:
            return list(removed)
        time.sleep(PAUSE_S)
    if problem is not None:
        raise problem
    return list(removed)


def projects(engine: Engine) -> set[str]:
    """Return every project that has a container, a network or a volume on the engine."""
    labelled: list[Mapping[str, str]] = [container.labels for container in engine.containers(PROJECT)]
    labelled += [network.get("Labels") or {} for network in engine.networks(PROJECT)]
    labelled += [volume.get("Labels") or {} for volume in engine.volumes(PROJECT)]
    return {labels[PROJECT] for labels in labelled if PROJECT in labels}


def settle(engine: Engine, project: str) -> None:
    """Wait until no container of ``project`` appears or starts: the engine finishes what a killed compose began.

    Engines before 28 may go on counting a container that is removed while it starts as part of its network, which then
    cannot be removed until the engine is restarted.
    """
    before: dict[str, str] = {}
    for _ in range(ROUNDS):
        states = {container.id: container.state for container in engine.containers(str(Owner.project(project)))}
        if states == before or not {"created", "restarting"} & set(states.values()):
            return
        before = states
        time.sleep(PAUSE_S)


def _remove_once(engine: Engine, project: str, removed: list[str]) -> None:
    """Remove what exists now and add its names to ``removed``.  Raises DeploymentFailed where something cannot go."""
    owner = Owner.project(project)
    containers = engine.containers(str(owner))
    engine.remove((container.id for container in containers), owner)
    removed += [f"container {container.name}" for container in containers]
    networks = {network["Id"]: network["Name"] for network in engine.networks(str(owner))}
    done = in_parallel(lambda network: engine.remove_network(network, owner), networks)
    removed += [f"network {name}" for name, is_gone in zip(networks.values(), done, strict=True) if is_gone]
    volumes = {volume["Name"]: volume.get("Labels") or {} for volume in engine.volumes(str(owner))}
    working = [name for name, labels in volumes.items() if SEED not in labels]
    for overlay in (True, False):  # overlays go before the volumes that they lie over
        names = [name for name in working if (FROM in volumes[name]) is overlay]
        done = in_parallel(lambda name: _remove_volume(engine, name, owner), names)
        removed += [f"volume {name}" for name, is_gone in zip(names, done, strict=True) if is_gone]


def _remove_volume(engine: Engine, volume: str, owner: Owner) -> bool:
    """Remove a volume; returns False for one that somebody else's container uses, which stays."""
    try:
        engine.remove_volume(volume, owner)
    except InputError:
        return False
    return True
