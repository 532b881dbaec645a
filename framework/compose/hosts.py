"""One compose document per host, with its services, volumes and networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from framework.compose.files import with_absolute_sources
from framework.errors import InputError, UnknownName
from framework.model import Application, Placement

LOCAL = "local"
"""The host of a deployment on one machine."""

Network = Literal["local", "overlay"]


def as_designed(application: Application) -> Placement:
    """Place every service on the host that ``application.yaml`` gives it."""
    return Placement({service.name: service.host for service in application.services})


def on_one_host(application: Application) -> Placement:
    """Place every service on this machine."""
    return Placement({service.name: LOCAL for service in application.services})


def hosts_of(application: Application, placement: Placement) -> tuple[str, ...]:
    """Return the hosts in use: in the application's order, then others in the order of their services.

    Raises InputError on a service without a host, UnknownName on a service that the application does not have.
    """
    names = [service.name for service in application.services]
    for name in (*placement.hosts, *placement.cpusets):
        if name not in names:
            raise UnknownName(f"service in the placement of {application.name}:", name, names)
    for name in names:
        if name not in placement.hosts:
            raise InputError(f"placement of {application.name}: {name} has no host")
    used = [placement.hosts[name] for name in names]
    return tuple(dict.fromkeys([host for host in application.hosts if host in used] + used))


def document_of(
    application: Application, services: Mapping[str, Mapping[str, Any]], *, project: str, network: Network, alone: bool
) -> dict[str, Any]:
    """Make the document of a host that runs ``services``; ``alone``: it is the only host.  Raises InputError."""
    compose = application.compose
    document = {key: value for key, value in compose.items() if key != "services"}
    for key in ("configs", "secrets"):
        if key in document:
            document[key] = with_absolute_sources(document[key] or {}, application.base)
    entries = {name: dict(entry) for name, entry in services.items()}
    if not alone:
        if network == "local":
            raise InputError(f"{application.name}: services on several hosts need network 'overlay'")
        everywhere = set(compose["services"])
        entries = {name: _without_others(name, entry, everywhere - set(services)) for name, entry in entries.items()}
        for key, users in (("volumes", _volumes(entries.values())), ("configs", None), ("secrets", None)):
            used = _listed(entries.values(), key) if users is None else users
            if key in document:
                document[key] = {name: entry for name, entry in (document[key] or {}).items() if name in used}
                if not document[key]:
                    del document[key]
    if network == "overlay":
        document["networks"] = _external(compose.get("networks") or {}, project)
    head: dict[str, Any] = {key: document.pop(key) for key in ("version", "name") if key in document}
    return {**head, "services": entries, **document}


def _external(networks: Mapping[str, Any], project: str) -> dict[str, Any]:
    """Refer to overlays that exist already: a network that spans hosts cannot belong to one host's document."""
    external: dict[str, Any] = {}
    for name, entry in {"default": None, **networks}.items():
        own = entry or {}
        external[name] = (
            own if own.get("external") else {"name": str(own.get("name") or f"{project}_{name}"), "external": True}
        )
    return external


def _without_others(name: str, entry: dict[str, Any], others: set[str]) -> dict[str, Any]:
    """Remove services on other hosts from ``depends_on``: a compose document cannot name them.  Raises InputError."""
    for key in ("network_mode", "ipc", "pid"):
        kind, _, other = str(entry.get(key, "")).partition(":")
        if kind == "service" and other in others:
            raise InputError(f"{name}: `{key}: service:{other}` needs {other} on the same host")
    for key in ("links", "volumes_from"):
        for item in entry.get(key) or []:
            if str(item).partition(":")[0] in others:
                raise InputError(f"{name}: `{key}: {item}` needs it on the same host")
    wanted = entry.get("depends_on")
    if not wanted:
        return entry
    if isinstance(wanted, Mapping):
        kept: Any = {other: condition for other, condition in wanted.items() if other not in others}
    else:
        kept = [other for other in wanted if other not in others]
    return {key: kept if key == "depends_on" else value for key, value in entry.items() if key != "depends_on" or kept}


def _volumes(entries: Iterable[Mapping[str, Any]]) -> set[str]:
    mounts = [mount for entry in entries for mount in entry.get("volumes") or []]
    return {
        str(mount.get("source", "")) if isinstance(mount, dict) else str(mount).partition(":")[0] for mount in mounts
    }


def _listed(entries: Iterable[Mapping[str, Any]], key: str) -> set[str]:
    items = [item for entry in entries for item in entry.get(key) or []]
    return {str(item.get("source", "")) if isinstance(item, dict) else str(item) for item in items}
