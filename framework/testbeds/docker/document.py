"""Preparation of a rendered compose document for a Docker Engine: labels, definition hashes, external volumes.

Everything gets labels, by which the testbed recognises it.  Every service also gets a hash of its definition without
the trial's labels, which tells whether the service changed.  Every volume becomes external and is named after the
project, whatever the document calls it: the testbed itself makes, fills and removes volumes.
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
# Labels that differ between trials.  Networks do not bear them, or each trial would make its networks anew.
CHANGING = frozenset({"tailor.trial", "tailor.repetition", "tailor.trial-index"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """Desired state of a deployment on the engine."""

    document: Mapping[str, Any]
    services: tuple[str, ...]  # services that run, without the one-shots behind a profile
    images: Mapping[str, str]  # service -> image, of all services
    definitions: Mapping[str, str]  # service -> hash
    volumes: Mapping[str, str]  # key in the document -> name on the engine
    holders: Mapping[str, tuple[str, ...]]  # volume's key -> services that mount it
    needs: Mapping[str, tuple[str, ...]]  # service -> services that it depends on
    finite: frozenset[str]  # services that may exit with 0: others wait for them to complete, or nothing restarts them
    restarted: frozenset[str]  # services that the engine starts again where they fail, as their file says
    replicas: Mapping[str, int]  # service -> number of its containers, where it is not 1
    labels: Mapping[str, str]  # of networks and volumes, which outlive a trial
    data: Mapping[str, Copied]  # volume's key -> the user's data that it starts as a copy of
    files: Mapping[str, Path]  # path below the deployment's directory -> the file that is copied there


def wanted(deployment: Deployment, admitted: Admitted) -> Wanted:
    """Return the desired state of ``deployment``; ``admitted``: the part of its document that may run.

    A service that parameters are read back from, or that the load generator calls, has to go on running.
    """
    lasting_services = {expected.service for expected in deployment.expectations} | set(deployment.reached)
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
        finite=frozenset(name for body in services.values() for name in completed_first(body))
        | frozenset(name for name, body in services.items() if name not in lasting_services and _may_end(body)),
        restarted=frozenset(name for name, body in services.items() if is_restarted(body)),
        replicas={name: count for name, body in services.items() if (count := replicas_of(body)) != 1},
        labels=lasting,
        data=admitted.data,
        files=admitted.files,
    )


def one_document(deployment: Deployment) -> Mapping[str, Any]:
    """Return the deployment's only document.  Raises DeploymentFailed when there is not exactly one, for one host."""
    if len(deployment.documents) != 1:
        hosts = ", ".join(sorted(deployment.documents)) or "none"
        raise DeploymentFailed(f"the Docker testbed runs one compose document; this deployment has one for: {hosts}")
    return next(iter(deployment.documents.values()))


def _definition(source: Mapping[str, Any], service: str, files: Mapping[str, str]) -> str:
    """Hash a service's definition: its part of the document, the parts that all share, and the files that it mounts."""
    body = source["services"][service]
    shared = {key: value for key, value in source.items() if key != "services"}
    paths = [path.removeprefix("./").rstrip("/") for path in _sources(body) + _shared_files(shared)]
    mounted = {name: text for name, text in files.items()
               if any(name == path or name.startswith(f"{path}/") or path in ("", ".") for path in paths)}  # fmt: skip
    canonical = json.dumps([body, shared, mounted], sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _sources(body: Mapping[str, Any]) -> list[str]:
    """Return the paths of the files and directories that a service mounts, and of its environment files."""
    mounts = [str(mount["source"]) for mount in body.get("volumes") or [] if mount["type"] == "bind"]
    return mounts + [str(file["path"] if isinstance(file, Mapping) else file) for file in body.get("env_file") or []]


def _shared_files(shared: Mapping[str, Any]) -> list[str]:
    """Return the files behind the document's configs and secrets."""
    entries = [*(shared.get("configs") or {}).values(), *(shared.get("secrets") or {}).values()]
    return [str(entry["file"]) for entry in entries if isinstance(entry, Mapping) and entry.get("file")]


def _mounted(body: Mapping[str, Any]) -> list[str]:
    """Return the keys of the volumes that a service mounts."""
    return [str(mount.get("source", "")) for mount in body.get("volumes") or [] if mount["type"] == "volume"]


def is_restarted(body: Mapping[str, Any]) -> bool:
    """Return whether the engine starts a service's container again after it failed."""
    policy = str(body.get("restart") or "no")
    condition = ((body.get("deploy") or {}).get("restart_policy") or {}).get("condition")
    return policy.partition(":")[0] in ("always", "unless-stopped", "on-failure") or condition in ("any", "on-failure")


def _may_end(body: Mapping[str, Any]) -> bool:
    """Return whether a service may be a one-shot: nothing restarts it, and it neither listens nor is asked."""
    return not (is_restarted(body) or body.get("expose") or body.get("healthcheck"))


def replicas_of(body: Mapping[str, Any]) -> int:
    """Return the number of containers of a service; a number that compose would refuse counts as one."""
    wanted = body.get("scale", (body.get("deploy") or {}).get("replicas", 1))
    return int(wanted) if str(wanted).isdigit() else 1


def completed_first(body: Mapping[str, Any]) -> list[str]:
    """Return the services that a service waits for to complete."""
    needs = body.get("depends_on")
    if not isinstance(needs, Mapping):
        return []
    return [name for name, how in needs.items() if (how or {}).get("condition") == "service_completed_successfully"]
