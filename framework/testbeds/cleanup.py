"""Removes what runs for a project: containers, networks and working volumes, found by label.

Kept data (label tailor.seed) stay.  What the load generator or a one-shot left is found by its labels, or by the
network that it is attached to.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from framework.errors import DeploymentFailed
from framework.testbeds.document import PROJECT
from framework.testbeds.engine import Engine, Listed, in_parallel
from framework.testbeds.seeds import SEED
from framework.testbeds.volumes import FROM

COMPOSE_PROJECT = "com.docker.compose.project"
STUDY = "tailor.study"
ROUNDS = 10
PAUSE_S = 0.2  # what was in the making when it was cut off shows up in a later round


def clean(engine: Engine, project: str) -> list[str]:
    """Remove everything of ``project`` but kept data; returns what was removed."""
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
    """Wait until no container of ``project`` appears any more: the engine ends what a killed compose began."""
    seen: set[str] | None = None
    for _ in range(ROUNDS):
        there = {container.id for container in engine.containers(f"{COMPOSE_PROJECT}={project}")}
        if there == seen:
            return
        seen = there
        time.sleep(PAUSE_S)


def _round(engine: Engine, project: str, removed: list[str]) -> None:
    """Remove what is there now, adding its names to ``removed``.  Raises DeploymentFailed when something resists."""
    networks = {network["Name"]: network for label in (PROJECT, STUDY) for network in engine.networks(label)}
    belongs = {name: _project(network.get("Labels") or {}) for name, network in networks.items()}
    gone = [c for c in engine.containers() if _owner(c, belongs, project) == project]
    engine.remove(container.id for container in gone)
    removed += [f"container {container.name}" for container in gone]
    unwanted = [name for name, owner in belongs.items() if owner == project]
    done = in_parallel(engine.remove_network, unwanted)
    removed += [f"network {name}" for name, went in zip(unwanted, done, strict=True) if went]
    volumes = {v["Name"]: v.get("Labels") or {} for label in (PROJECT, STUDY) for v in engine.volumes(label)}
    ours = {name: labels for name, labels in volumes.items() if SEED not in labels}
    working = [name for name, labels in ours.items() if _project(labels) == project]
    in_parallel(engine.remove_volume, [name for name in working if FROM in volumes[name]])  # before what they lie on
    in_parallel(engine.remove_volume, [name for name in working if FROM not in volumes[name]])
    removed += [f"volume {name}" for name in working]


def _owner(container: Listed, belongs: Mapping[str, str], project: str) -> str | None:
    """The project a container is part of; None when it is not Tailor's."""
    labels = container.labels
    if PROJECT in labels:
        return labels[PROJECT]
    if labels.get(COMPOSE_PROJECT) == project:
        return project
    if not any(key.startswith("tailor.") for key in labels):
        return None
    attached = [belongs[network] for network in container.addresses if network in belongs]
    return attached[0] if attached else _project(labels) if STUDY in labels else None


def _project(labels: Mapping[str, Any]) -> str:
    """The project in the labels of something of Tailor's; where only the study is known, what Tailor calls it then."""
    return str(labels.get(PROJECT) or labels.get(COMPOSE_PROJECT) or f"tailor-{labels.get(STUDY, '')}")
