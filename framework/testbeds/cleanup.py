"""Removes what runs for a project, or for any: containers, networks and working volumes, found by label.

Kept data (label tailor.seed) stay.  What the load generator or a one-shot left is found by its labels, or by the
network that it is attached to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from framework.testbeds.document import PROJECT
from framework.testbeds.engine import Engine, Listed, in_parallel
from framework.testbeds.seeds import SEED

COMPOSE_PROJECT = "com.docker.compose.project"
STUDY = "tailor.study"


def clean(engine: Engine, project: str | None, keep: Collection[str] = ()) -> list[str]:
    """Remove everything of ``project``, or (None) of every project not in ``keep``; returns what was removed."""
    networks = {network["Name"]: network for label in (PROJECT, STUDY) for network in engine.networks(label)}
    belongs = {name: _project(network.get("Labels") or {}) for name, network in networks.items()}

    def goes(owner: str) -> bool:
        return owner == project if project is not None else owner not in keep

    def owner(container: Listed) -> str | None:
        """The project a container is part of; None when it is not Tailor's."""
        named = container.labels.get(PROJECT)
        if named or (project is not None and container.labels.get(COMPOSE_PROJECT) == project):
            return named or project
        if not any(key.startswith("tailor.") for key in container.labels):
            return None
        attached = [belongs[network] for network in container.addresses if network in belongs]
        return attached[0] if attached else _project(container.labels) if STUDY in container.labels else None

    gone = [c for c in engine.containers() if (of := owner(c)) is not None and goes(of)]
    engine.remove(container.id for container in gone)
    removed = [f"container {container.name}" for container in gone]
    unwanted = [name for name, of in belongs.items() if goes(of)]
    in_parallel(engine.remove_network, unwanted)
    removed += [f"network {name}" for name in unwanted]
    volumes = {v["Name"]: v.get("Labels") or {} for label in (PROJECT, STUDY) for v in engine.volumes(label)}
    working = [name for name, labels in volumes.items() if SEED not in labels and goes(_project(labels))]
    in_parallel(engine.remove_volume, sorted(working, key=lambda name: name.endswith("_tailor-layers")))
    return removed + [f"volume {name}" for name in working]


def _project(labels: Mapping[str, Any]) -> str:
    """The project in the labels of something of Tailor's; where only the study is known, what Tailor calls it then."""
    return str(labels.get(PROJECT) or labels.get(COMPOSE_PROJECT) or f"tailor-{labels.get(STUDY, '')}")
