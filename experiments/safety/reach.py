"""The parts of a compose document that reach the host, judged without a line of the allow-list that is tested.

``problems`` looks at the long form that Docker Compose itself prints (`docker compose config --format json`), which
has filled in, merged and normalised everything in its own way, and at what Tailor hands to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

NAMESPACES = ("network_mode", "pid", "ipc", "uts", "userns_mode", "cgroup")
NEVER = (
    "privileged", "devices", "device_cgroup_rules", "gpus", "runtime", "cgroup_parent", "credential_spec", "provider",
    "oom_kill_disable", "oom_score_adj", "storage_opt", "blkio_config", "use_api_socket", "external_links", "extends",
    "label_file", "post_start", "pre_stop", "isolation", "models", "build", "ports", "container_name", "mac_address",
)  # fmt: skip
HARMLESS_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
    "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
CLOCK = ("/etc/localtime", "/etc/timezone")
ASKS_FOR_NOTHING: Sequence[Any] = (None, False, "", 0, "0", "false", [], {})


def problems(
    document: Mapping[str, Any], *, readable: Sequence[Path], own: Path, project: str, hidden: Sequence[str]
) -> list[str]:
    """Return the reasons why a document reaches out of its containers; empty where it does not.

    ``readable``: directories whose files may be mounted read-only.  ``own``: the deployment's directory, whose copies
    may be written.  ``project``: the beginning of every name on the engine; empty: nothing may have a name.
    ``hidden``: texts that may stand nowhere.
    """
    reasons: list[str] = []
    services = document.get("services") or {}
    for name, body in services.items():
        for problem in _of_service(body, services, readable, own):
            reasons.append(f"{name}: {problem}")
    for section in ("volumes", "networks"):
        for name, about in (document.get(section) or {}).items():
            reasons += [f"{section}.{name}: {problem}" for problem in _of_named(section, about or {}, project)]
    for section in ("configs", "secrets"):
        for name, about in (document.get(section) or {}).items():
            reasons += [f"{section}.{name}: {problem}" for problem in _of_source(about or {}, readable)]
    reasons += [
        f"{key}: a section" for key in set(document) - {"services", "volumes", "networks", "configs", "secrets", "name"}
    ]
    reasons += [f"it contains {text}" for text in hidden for leaf in _leaves(document) if text in leaf]
    return reasons


def _of_service(
    body: Mapping[str, Any], services: Mapping[str, Any], readable: Sequence[Path], own: Path
) -> Iterator[str]:
    for key in NEVER:
        if body.get(key) not in ASKS_FOR_NOTHING:
            yield f"{key} {body[key]!r}"
    for key in NAMESPACES:
        text = str(body.get(key) or "")
        kind, _, other = text.partition(":")
        if text and text not in ("none", "private", "shareable") and not (kind == "service" and other in services):
            yield f"{key} {text!r}"
    for mount in _listed(body.get("volumes")):
        yield from _of_mount(mount, readable, own)
    for item in _listed(body.get("volumes_from")):
        if str(item).partition(":")[0] not in services:
            yield f"volumes_from {item!r}"
    for item in _listed(body.get("cap_add")):
        if str(item).upper().removeprefix("CAP_") not in HARMLESS_CAPABILITIES:
            yield f"cap_add {item!r}"
    for item in _listed(body.get("security_opt")):
        if not str(item).startswith("no-new-privileges"):
            yield f"security_opt {item!r}"
    sysctls = body.get("sysctls") or {}
    for name in (
        sysctls if isinstance(sysctls, Mapping) else [str(setting).partition("=")[0] for setting in _listed(sysctls)]
    ):
        if not str(name).startswith(("net.", "kernel.msg", "kernel.sem", "kernel.shm", "fs.mqueue.")):
            yield f"sysctls {name!r}"
    if "host-gateway" in json.dumps(body.get("extra_hosts") or ""):
        yield "extra_hosts"
    logging = body.get("logging") or {}
    if not isinstance(logging, Mapping) or logging.get("driver") not in (None, "json-file", "local", "none"):
        yield f"logging {logging!r}"
    if body.get("restart") in ("always", "unless-stopped"):
        yield "restart"
    deploy = body.get("deploy") or {}
    reserved = ((deploy.get("resources") or {}).get("reservations") or {}) if isinstance(deploy, Mapping) else {}
    if not isinstance(reserved, Mapping) or reserved.get("devices") or reserved.get("generic_resources"):
        yield f"deploy {reserved!r}"
    for entry in _listed(body.get("env_file")):
        path = str(entry["path"] if isinstance(entry, Mapping) else entry)
        if not _below(path, readable):
            yield f"env_file {path!r}"


def _of_mount(mount: Any, readable: Sequence[Path], own: Path) -> Iterator[str]:
    if not isinstance(mount, Mapping):
        yield f"a mount that is no long form: {mount!r}"
        return
    kind, source = mount.get("type"), str(mount.get("source") or "")
    if kind == "bind":
        path = os.path.join(own, source)  # noqa: PTH118 - with links and dots as they are
        if (mount.get("bind") or {}).get("propagation") not in (None, "", "private", "rprivate"):
            yield f"propagation {mount!r}"
        if not (
            _below(path, [own]) or (mount.get("read_only") is True and (source in CLOCK or _below(path, readable)))
        ):
            yield f"mount {mount!r}"
    elif kind == "volume":
        subpath = str((mount.get("volume") or {}).get("subpath") or "")
        if "/" in source or ".." in source or ".." in subpath.split("/") or subpath.startswith("/"):
            yield f"mount {mount!r}"
    elif kind != "tmpfs":
        yield f"mount {mount!r}"


def _of_named(section: str, about: Mapping[str, Any], project: str) -> Iterator[str]:
    name = about.get("name")
    if name is not None and not (project and str(name).startswith(f"{project}_")):
        yield f"the name {name!r}"
    if about.get("external") not in ASKS_FOR_NOTHING and not (section == "volumes" and project and name):
        yield "external"
    if about.get("driver") not in (None, "local" if section == "volumes" else "bridge"):
        yield f"driver {about['driver']!r}"
    for key in ("driver_opts", "ipam", "attachable", "enable_ipv6"):
        if about.get(key) not in ASKS_FOR_NOTHING:
            yield f"{key} {about[key]!r}"


def _of_source(about: Mapping[str, Any], readable: Sequence[Path]) -> Iterator[str]:
    for key, value in about.items():
        if key == "file":
            if not _below(str(value), readable):
                yield f"file {value!r}"
        elif key not in ("content", "name") and value not in ASKS_FOR_NOTHING:
            yield f"{key} {value!r}"


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else () if value in ASKS_FOR_NOTHING else (value,)


def _below(path: str, directories: Sequence[Path]) -> bool:
    """Return whether a path, with every link followed, lies below one of these directories."""
    real = os.path.realpath(path)
    return any(
        os.path.commonpath([real, os.path.realpath(directory)]) == os.path.realpath(directory)
        for directory in directories
    )


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield str(value)
