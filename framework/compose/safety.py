"""What a compose file may not ask for where strangers can launch it: ways out of its containers.

The command line runs what its user could run anyway; the service runs what others launch, on its operator's machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

HOST_NAMESPACES = ("network_mode", "pid", "ipc", "userns_mode", "uts", "cgroup")
FORBIDDEN = ("devices", "device_cgroup_rules", "cap_add", "security_opt", "sysctls", "cgroup_parent", "credential_spec")
SOCKETS = ("docker.sock", "containerd.sock", "podman.sock", "crio.sock")


def unsafe(compose: Mapping[str, Any], directory: Path) -> list[str]:
    """Each thing that leads out of the containers, named by its place in the file; none is what a service may run."""
    found: list[str] = []
    for name, service in (compose.get("services") or {}).items():
        if isinstance(service, Mapping):
            found += [f"services.{name}.{what}" for what in _of_service(service, directory)]
    for kind in ("volumes", "secrets", "configs"):
        for name, about in (compose.get(kind) or {}).items():
            found += [f"{kind}.{name}.{what}" for what in _of_source(about, directory)]
    return found


def _of_service(service: Mapping[str, Any], directory: Path) -> Iterator[str]:
    if service.get("privileged") not in (None, False):
        yield "privileged"
    for key in HOST_NAMESPACES:
        value = str(service.get(key, ""))
        if value == "host" or value.startswith(("container:", "ns:")):
            yield f"{key}: {value}"
    for key in FORBIDDEN:
        if service.get(key):
            yield key
    for volume in service.get("volumes") or ():
        source = _bind_of(volume)
        if source is not None and not _inside(source, directory):
            yield f"volumes: {source}"
    for key in ("env_file", "extends", "develop", "post_start", "pre_stop"):
        if service.get(key):
            yield key  # reads files of the host, or runs commands in other ways than the deployment's own


def _of_source(about: Any, directory: Path) -> Iterator[str]:
    """Of a named volume, a secret or a configuration."""
    if not isinstance(about, Mapping):
        return
    if about.get("driver_opts"):
        yield "driver_opts"
    file = about.get("file")
    if file is not None and not _inside(str(file), directory):
        yield f"file: {file}"


def _bind_of(volume: Any) -> str | None:
    """The path of the host that a mount names; None for a named volume."""
    if isinstance(volume, Mapping):
        return str(volume.get("source", "")) if volume.get("type") == "bind" else None
    source, colon, _ = str(volume).partition(":")
    return source if colon and source.startswith((".", "/", "~", "$")) else None


def _inside(source: str, directory: Path) -> bool:
    """Whether a path stays below the application's directory; one that the environment completes may lead anywhere."""
    if "$" in source or source.startswith("~") or PurePosixPath(source).name in SOCKETS:
        return False
    return (directory / source).resolve().is_relative_to(directory.resolve())
