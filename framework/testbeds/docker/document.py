"""What the Docker testbed adds to a rendered compose document before it runs it, and what it reads from it.

Everything gets the labels by which it is found again; every service also gets a hash of its definition, computed
without the trial's labels, so that a service that did not change can be recognised.  Every volume becomes external and
is named after the project, whatever the document calls it: the testbed itself makes, fills and removes them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.compose.checking import Copied
from framework.compose.safety import Admitted
from framework.errors import DeploymentFailed
from framework.model import Deployment
from framework.testbeds.docker.owner import PROJECT

DEFINITION = "tailor.definition"
# What differs between deployments of one definition: a network with such a label would be made anew for each trial.
CHANGING = frozenset({"tailor.trial", "tailor.repetition", "tailor.trial-index"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A deployment as the engine is to run it."""

    document: Mapping[str, Any]
    services: tuple[str, ...]  # those that run; not the one-shots behind a profile
    images: Mapping[str, str]  # service -> image, of all services
    definitions: Mapping[str, str]  # service -> hash
    volumes: Mapping[str, str]  # key in the document -> name on the engine
    holders: Mapping[str, tuple[str, ...]]  # volume's key -> services that mount it
    needs: Mapping[str, tuple[str, ...]]  # service -> those that it depends on
    finite: frozenset[str]  # services that others wait for to complete: they may exit with 0
    labels: Mapping[str, str]  # for what outlives a trial: networks and volumes
    data: Mapping[str, Copied]  # volume's key -> what it begins as a copy of
    files: Mapping[str, Path]  # name below the deployment's directory -> the file that is copied there


def wanted(deployment: Deployment, admitted: Admitted) -> Wanted:
    """``deployment`` as the engine is to run it; ``admitted``: what of its document may run."""
    source = admitted.document
    services = {name: dict(body) for name, body in source["services"].items()}
    ours = {key: f"{deployment.project}_{key}" for key in source.get("volumes", {})}
    labels = {**deployment.labels, PROJECT: deployment.project}
    lasting = {key: value for key, value in labels.items() if key not in CHANGING}
    definitions = {name: _definition(source, name, deployment.files) for name in services}
    for name, body in services.items():
        body["labels"] = {**(body.get("labels") or {}), **labels, DEFINITION: definitions[name]}
    volumes = {key: {"external": True, "name": name} for key, name in ours.items()}
    networks = {key: {**body, "labels": lasting} for key, body in {"default": {}, **source.get("networks", {})}.items()}
    document = {**source, "services": services, "networks": networks, **({"volumes": volumes} if volumes else {})}
    return Wanted(
        document=document,
        services=tuple(name for name, body in services.items() if not body.get("profiles")),
        images={name: str(body.get("image") or "") for name, body in services.items()},
        definitions=definitions,
        volumes=ours,
        holders={key: tuple(n for n, body in services.items() if key in _mounted(body)) for key in ours},
        needs={name: tuple(body.get("depends_on") or ()) for name, body in services.items()},
        finite=frozenset(name for body in services.values() for name in _completed(body)),
        labels=lasting,
        data=admitted.data,
        files=admitted.files,
    )


def one_document(deployment: Deployment) -> Mapping[str, Any]:
    """Raises DeploymentFailed when the deployment is not one document for one host."""
    if len(deployment.documents) != 1:
        hosts = ", ".join(sorted(deployment.documents)) or "none"
        raise DeploymentFailed(f"the Docker testbed runs one compose document; this deployment has one for: {hosts}")
    return next(iter(deployment.documents.values()))


def _definition(source: Mapping[str, Any], service: str, files: Mapping[str, str]) -> str:
    """Hash of all that makes a service what it is: its part of the document, what it shares, the files it mounts."""
    body = source["services"][service]
    shared = {key: value for key, value in source.items() if key != "services"}
    paths = [path.removeprefix("./").rstrip("/") for path in _sources(body) + _shared_files(shared)]
    mounted = {name: text for name, text in files.items()
               if any(name == path or name.startswith(f"{path}/") or path in ("", ".") for path in paths)}  # fmt: skip
    canonical = json.dumps([body, shared, mounted], sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _sources(body: Mapping[str, Any]) -> list[str]:
    """What a service mounts or reads from beside the document: files, and environment files."""
    mounts = [str(mount["source"]) for mount in body.get("volumes") or [] if mount["type"] == "bind"]
    return mounts + [str(one["path"] if isinstance(one, Mapping) else one) for one in body.get("env_file") or []]


def _shared_files(shared: Mapping[str, Any]) -> list[str]:
    """Files behind the document's configs and secrets."""
    entries = [*(shared.get("configs") or {}).values(), *(shared.get("secrets") or {}).values()]
    return [str(entry["file"]) for entry in entries if isinstance(entry, Mapping) and entry.get("file")]


def _mounted(body: Mapping[str, Any]) -> list[str]:
    """The keys of the volumes that a service mounts."""
    return [str(mount.get("source", "")) for mount in body.get("volumes") or [] if mount["type"] == "volume"]


def _completed(body: Mapping[str, Any]) -> list[str]:
    waits = body.get("depends_on")
    if not isinstance(waits, Mapping):
        return []
    return [name for name, how in waits.items() if (how or {}).get("condition") == "service_completed_successfully"]
