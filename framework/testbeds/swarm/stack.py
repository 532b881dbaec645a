"""The document of a stack, from a compose document: what a swarm has in another place is moved there, the rest refused.

A swarm takes resources, restarts and replicas under ``deploy``, files as configs and secrets, and ignores
``depends_on``: services are started in waves instead.  Names are resolved to containers (dnsrr), as compose does, not
to a virtual address in between.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from framework.errors import DeploymentFailed
from framework.testbeds.docker.document import Wanted, is_restarted, replicas_of
from framework.testbeds.docker.listed import SERVICE

KEPT = frozenset({
    "cap_add", "cap_drop", "command", "dns", "dns_opt", "dns_search", "domainname", "entrypoint", "env_file",
    "environment", "expose", "extra_hosts", "healthcheck", "hostname", "image", "init", "labels", "logging", "networks",
    "read_only", "stdin_open", "stop_grace_period", "stop_signal", "sysctls", "tty", "ulimits", "user", "working_dir",
})  # fmt: skip
"""Keys of a service that `docker stack deploy` takes as they are."""

MOVED = frozenset({
    "configs", "cpus", "cpuset", "deploy", "depends_on", "mem_limit", "mem_reservation", "profiles", "restart", "scale",
    "secrets", "shm_size", "tmpfs", "volumes", "pull_policy", "build", "platform",
})  # fmt: skip
"""Keys that are written in another place, or that say nothing here."""

LARGEST = 500 * 1000
"""Bytes of a config or a secret (docs of `docker config create`)."""

MOST_FILES = 100
ROLE, AGENT = "tailor.role", "tailor-agent"
RESTART_DELAY = "500ms"


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack.  ``document``: for `docker stack deploy`.  ``waves``: its services, each after those that it needs.

    ``cpusets``: service -> CPUs, which a swarm cannot be asked for and the node's engine sets.  ``agents``: services of
    Tailor's own, which start with the first wave.
    """

    document: Mapping[str, Any]
    waves: tuple[tuple[str, ...], ...]
    cpusets: Mapping[str, str]
    agents: Mapping[str, Any] = field(default_factory=dict)

    def with_agents(self, nodes: Iterable[str], image: str, labels: Mapping[str, str]) -> Stack:
        """Return the stack with a container of Tailor's on each node, on all networks.  ``nodes``: their ids."""
        networks = list(self.document["networks"])
        entries = {f"{AGENT}-{number}": agent(node, image, ["-hold"], {**labels, ROLE: AGENT}, networks)
                   for number, node in enumerate(nodes, 1)}  # fmt: skip
        return replace(self, agents=entries)

    def of_images(self, images: Mapping[str, str]) -> Stack:
        """Return the stack with these images: service -> id.

        A node pulls an image that is told by name, although it has one: an attempt of 20 s where no registry answers,
        and another image than the study's where the registry's is newer.
        """
        entries = {name: {**body, "image": images[name]} for name, body in self.document["services"].items()}
        return replace(self, document={**self.document, "services": entries})

    def of_wave(self, wave: int) -> Mapping[str, Any]:
        """Return the document with the services of a wave alone: those of earlier ones go on as they are."""
        services = {name: self.document["services"][name] for name in self.waves[wave]}
        services |= self.agents if not wave else {}
        used = {entry["source"] for body in services.values() for key in ("configs", "secrets")
                for entry in body.get(key, ())}  # fmt: skip
        parts = {key: {name: entry for name, entry in self.document.get(key, {}).items() if name in used}
                 for key in ("configs", "secrets")}  # fmt: skip
        return {**self.document, "services": services, **{key: part for key, part in parts.items() if part}}


def agent(
    node: str, image: str, command: Sequence[str], labels: Mapping[str, str], networks: Sequence[str]
) -> dict[str, Any]:
    """Return a service of Tailor's own on one node.

    It is a service, and no container that joins a network: what a lost node had joined could never be removed.
    """
    return {
        "image": image,
        "command": list(command),
        "labels": dict(labels),
        "networks": list(networks),
        "deploy": {
            "endpoint_mode": "dnsrr",
            "labels": dict(labels),
            "placement": {"constraints": [f"node.id == {node}"]},
            "restart_policy": {"condition": "any", "delay": RESTART_DELAY},
        },
    }


def stack_of(want: Wanted, project: str, directory: Path, nodes: Mapping[str, str]) -> Stack:
    """Return the stack of a deployment.

    ``directory``: the deployment's, to which relative paths refer.  ``nodes``: service -> id of the node it runs on.
    Raises DeploymentFailed for what a swarm cannot do, service by service.
    """
    document = want.document
    services = {name: document["services"][name] for name in want.services}
    problems = [f"{name}: {key}" for name, body in services.items() for key in sorted(body.keys() - KEPT - MOVED)
                if body[key]]  # fmt: skip
    if problems:
        raise DeploymentFailed(f"a swarm's services have no {', '.join(problems)}; allowed: on the docker testbed")
    files = _Files(project, directory, want.labels)
    given = {key: document.get(key) or {} for key in ("configs", "secrets")}
    entries = {name: _service(name, body, want, nodes[name], files, given) for name, body in services.items()}
    networks = {
        key: {"driver": "overlay", "name": f"{project}_{key}", "labels": dict(want.labels)}
        for key in document.get("networks") or {"default": None}
    }
    result: dict[str, Any] = {"version": "3.8", "services": entries, "networks": networks}
    if want.volumes:
        result["volumes"] = {key: {"external": True, "name": name} for key, name in want.volumes.items()}
    result |= {key: part for key, part in files.sections.items() if part}
    cpusets = {name: str(body["cpuset"]) for name, body in services.items() if body.get("cpuset")}
    return Stack(result, tuple(waves(want.services, want.needs)), cpusets)


def waves(services: Sequence[str], needs: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """Return the services in waves: each service stands behind all that it needs.  Raises DeploymentFailed."""
    left, done, ordered = list(services), set[str](), []
    while left:
        ready = tuple(name for name in left if not (set(needs.get(name, ())) & set(left)))
        if not ready:
            raise DeploymentFailed(f"these services wait for each other: {', '.join(left)}")
        ordered.append(ready)
        done |= set(ready)
        left = [name for name in left if name not in done]
    return ordered


class _Files:
    """The configs and secrets of a stack.  A name has the hash of its content: a swarm cannot change one in use."""

    def __init__(self, project: str, directory: Path, labels: Mapping[str, str]) -> None:
        self._project, self._directory, self._labels = project, directory, dict(labels)
        self.sections: dict[str, dict[str, Any]] = {"configs": {}, "secrets": {}}

    def path(self, source: str) -> Path:
        return self._directory / source  # an absolute path stays as it is

    def add(self, service: str, kind: str, path: Path) -> str:
        """Add a file; return its key.  Raises DeploymentFailed for one that cannot be read or is too large."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DeploymentFailed(f"cannot read {path}: {error.strerror}", service) from error
        if len(data) > LARGEST:
            raise DeploymentFailed(
                f"{path} has {len(data)} bytes; a file that a swarm mounts has at most {LARGEST}: put it "
                "into the image, or into a volume",
                service,
            )
        key = hashlib.sha256(data).hexdigest()[:16]
        name = f"{self._project}-{key}"
        self.sections[kind][key] = {"file": str(path.absolute()), "name": name, "labels": self._labels}
        return key


def _service(
    name: str, body: Mapping[str, Any], want: Wanted, node: str, files: _Files, given: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    entry = {key: value for key, value in body.items() if key in KEPT}
    labels = {**body["labels"], SERVICE: name}
    entry["labels"] = labels
    volumes: list[Any] = []
    mounted: dict[str, list[dict[str, Any]]] = {"configs": [], "secrets": []}
    for mount in body.get("volumes") or []:
        if mount["type"] == "bind":
            mounted["configs"] += _bound(name, mount, files)
        elif mount["type"] == "volume":
            volumes.append({key: value for key, value in mount.items() if key != "volume"})
        else:
            volumes.append(dict(mount))
    for target in _texts(body.get("tmpfs")):
        path, _, options = target.partition(":")
        sizes = [part.removeprefix("size=") for part in options.split(",") if part.startswith("size=")]
        volumes.append({"type": "tmpfs", "target": path, **({"tmpfs": {"size": _bytes(sizes[0])}} if sizes else {})})
    if body.get("shm_size"):
        volumes.append({"type": "tmpfs", "target": "/dev/shm", "tmpfs": {"size": _bytes(body["shm_size"])}})
    for kind in ("configs", "secrets"):
        for reference in body.get(kind) or []:
            mounted[kind].append(_referred(name, kind, reference, files, given[kind]))
    if volumes:
        entry["volumes"] = volumes
    entry |= {kind: listed for kind, listed in mounted.items() if listed}
    entry["deploy"] = _deploy(body, want, node)
    return entry


def _bound(service: str, mount: Mapping[str, Any], files: _Files) -> list[dict[str, Any]]:
    """Return the configs for a mounted file, or for every file of a mounted directory."""
    source, target = files.path(str(mount["source"])), str(mount["target"])
    if not source.is_dir():
        return [_entry(files.add(service, "configs", source), target, source)]
    listed = sorted(path for path in source.rglob("*") if path.is_file())
    if len(listed) > MOST_FILES:
        raise DeploymentFailed(
            f"{source} has {len(listed)} files; at most {MOST_FILES} are mounted on a swarm", service
        )
    return [
        _entry(files.add(service, "configs", path), f"{target.rstrip('/')}/{path.relative_to(source).as_posix()}", path)
        for path in listed
    ]


def _entry(key: str, target: str, path: Path) -> dict[str, Any]:
    return {"source": key, "target": target, "mode": 0o555 if os.access(path, os.X_OK) else 0o444}


def _referred(service: str, kind: str, reference: Any, files: _Files, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reference to a config or secret of the document itself."""
    about = dict(reference) if isinstance(reference, Mapping) else {"source": str(reference)}
    entry = given.get(str(about["source"])) or {}
    if not entry.get("file"):
        raise DeploymentFailed(f"{kind} {about['source']}: only those of a file are deployed on a swarm", service)
    default = f"/{about['source']}" if kind == "configs" else str(about["source"])
    key = files.add(service, kind, files.path(str(entry["file"])))
    return {**about, "source": key, "target": about.get("target") or default}


def _deploy(body: Mapping[str, Any], want: Wanted, node: str) -> dict[str, Any]:
    own = body.get("deploy") or {}
    resources = {key: dict(value) for key, value in (own.get("resources") or {}).items()}
    limits, reserved = resources.get("limits", {}), resources.get("reservations", {})
    if body.get("cpus"):
        limits["cpus"] = str(body["cpus"])
    if body.get("mem_limit"):
        limits["memory"] = str(_bytes(body["mem_limit"]))
    if body.get("mem_reservation"):
        reserved["memory"] = str(_bytes(body["mem_reservation"]))
    deploy: dict[str, Any] = {
        "replicas": replicas_of(body),
        "endpoint_mode": "dnsrr",
        "labels": dict(want.labels),
        "placement": {"constraints": [f"node.id == {node}"]},
        "restart_policy": {"condition": "on-failure", "delay": RESTART_DELAY}
        if is_restarted(body)
        else {"condition": "none"},
    }
    parts = {"limits": limits, "reservations": reserved}
    if kept := {key: part for key, part in parts.items() if part}:
        deploy["resources"] = kept
    return deploy


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(item) for item in value or []]


def _bytes(amount: Any) -> int:
    """Return bytes of an amount such as 64m."""
    text = str(amount).strip().lower().removesuffix("b").removesuffix("i")
    units = {"k": 10, "m": 20, "g": 30}
    return int(float(text[:-1]) * 2 ** units[text[-1]]) if text[-1:] in units else int(float(text))
