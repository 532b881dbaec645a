"""The allow-list: each key that a service of a compose file may have, and which values of it.

A rule gets the check, the service's name, the key and its value (variables filled in); what it returns is handed on to
compose, None is nothing.  A key that has no rule is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from framework.compose.checking import Check, passing
from framework.compose.interpolation import InterpolationError

Rule = Callable[[Check, str, str, Any], Any]

TYPE_LABEL = "tailor.type"
DEFAULT = "default"  # the network that every service joins which names none
UNLISTED = "not on the list of what a study runs"
OUT = "it leads out of its container"

# Values that stay inside the container, whatever they are.
PLAIN = (
    "cap_drop", "command", "cpu_count", "cpu_percent", "cpu_period", "cpu_quota", "cpu_shares", "cpus", "cpuset",
    "dns", "dns_opt", "dns_search", "domainname", "entrypoint", "expose", "group_add", "healthcheck",
    "hostname", "image", "init", "mem_limit", "mem_reservation", "mem_swappiness", "memswap_limit", "pids_limit",
    "platform", "profiles", "read_only", "scale", "shm_size", "stdin_open", "stop_grace_period", "stop_signal", "tty",
    "ulimits", "user", "working_dir",
)  # fmt: skip
# Keys of compose's other commands: nothing is built, watched or pulled in a study.
UNUSED = ("annotations", "attach", "build", "develop", "pull_policy")
# Docker's own default list: what a container may do that asks for nothing.
CAPABILITIES = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
LOG_DRIVERS = ("json-file", "local", "none")
LOG_OPTIONS = frozenset({"max-size", "max-file", "max-buffer-size", "compress", "mode", "labels", "env", "tag"})
_SYSCTL = re.compile(r"(net|kernel\.(msg|sem|shm)|fs\.mqueue)[a-z0-9_.]*")  # those of a container's own namespaces
_TMPFS_OPTION = re.compile(r"(size|mode|uid|gid|nr_inodes)=\w+%?|exec|noexec|nosuid|nodev|rw|ro|noatime")


def _handed_on(check: Check, service: str, key: str, value: Any) -> Any:
    return value


def _unused(check: Check, service: str, key: str, value: Any) -> None:
    return None


def _left_out(kind: str) -> Rule:
    def rule(check: Check, service: str, key: str, value: Any) -> None:
        if value:
            check.without(kind, service)

    return rule


def _ports(check: Check, service: str, key: str, value: Any) -> None:
    """Nothing is published; an address that others can reach was asked for on purpose."""
    for entry in members(value):
        address = str(entry.get("host_ip") or "") if isinstance(entry, Mapping) else _address(str(entry))
        if address and not (address.startswith("127.") or address in ("::1", "localhost")):
            check.refuse(f"services.{service}.ports: {address}", "an address that others can reach")
        check.without("ports", service)


def _address(port: str) -> str:
    """Of a short entry, ``[ADDRESS:][PUBLISHED:]TARGET``."""
    if port.startswith("["):
        return port[1:].partition("]")[0]
    parts = port.rsplit(":", 2)
    return parts[0].strip() if len(parts) == 3 else ""


def _labels(check: Check, service: str, key: str, value: Any) -> dict[str, str] | None:
    """Other software on the machine looks for labels: a proxy would send it requests, an updater restart it."""
    given = dict(pairs(value))
    if given.keys() - {TYPE_LABEL}:
        check.without("labels", service)
    return {TYPE_LABEL: str(given[TYPE_LABEL])} if TYPE_LABEL in given else None


def _environment(check: Check, service: str, key: str, value: Any) -> dict[str, Any]:
    """A variable without a value has the operator's, where it is passed on, and is else not set."""
    found: dict[str, Any] = {}
    for name, text in pairs(value):
        try:
            found[name] = check.variables.get(name) if text is None else text
        except InterpolationError as error:
            check.refuse(f"services.{service}.environment.{name}", error.reason, passing(name))
    return {name: text for name, text in found.items() if text is not None}


def _env_file(check: Check, service: str, key: str, value: Any) -> list[Any]:
    found: list[Any] = []
    for entry in members(value):
        about = dict(entry) if isinstance(entry, Mapping) else {"path": entry}
        path = check.path(str(about.get("path", "")))
        why = check.not_readable(path, needed=about.get("required") is not False)
        if about.keys() - {"path", "required"}:
            why = UNLISTED
        if not why or not check.refuse(f"services.{service}.env_file: {about.get('path')}", why):
            found.append({**about, "path": path} if isinstance(entry, Mapping) else path)
    return found


def _volumes(check: Check, service: str, key: str, value: Any) -> list[dict[str, Any]]:
    return [mount for entry in members(value) if (mount := check.mount(service, entry)) is not None]


def _networks(check: Check, service: str, key: str, value: Any) -> dict[str, Any]:
    """Networks of the document, with the service's further names there and no fixed addresses."""
    found: dict[str, Any] = {}
    listed = value.items() if isinstance(value, Mapping) else [(str(one), None) for one in members(value)]
    for name, about in listed:
        place = f"services.{service}.networks.{name}"
        if name not in check.declared["networks"] and name != DEFAULT:
            check.refuse(place, "not declared", "declare it under networks")
        given = dict(about) if isinstance(about, Mapping) else {}
        found[name] = {"aliases": given["aliases"]} if given.get("aliases") else None
        for option in given:
            if option in ("ipv4_address", "ipv6_address", "link_local_ips", "mac_address"):
                check.without("addresses", service)
            elif option not in ("priority", "gw_priority", "aliases"):
                check.refuse(f"{place}.{option}", UNLISTED)
    return found


def _only(*values: str, of_services: bool = False) -> Rule:
    """One of these values, or with ``of_services`` what belongs to a service of the document: ``service:NAME``."""

    def rule(check: Check, service: str, key: str, value: Any) -> Any:
        text = "" if value is None or value is False else str(value)
        kind, _, other = text.partition(":")
        if text in ("", *values) or (of_services and kind == "service" and other in check.declared["services"]):
            return text or None
        return None if check.refuse(f"services.{service}.{key}: {text}", OUT) else value

    return rule


def _each(fits: Callable[[Check, Any], bool], why: str = OUT) -> Rule:
    """A list, or a mapping's ``name=value``, whose members all have to fit."""

    def rule(check: Check, service: str, key: str, value: Any) -> Any:
        listed = [f"{name}={text}" for name, text in value.items()] if isinstance(value, Mapping) else members(value)
        for one in listed:
            if not fits(check, one):
                check.refuse(f"services.{service}.{key}: {str(one)[:200]}", why)
        return value or None

    return rule


def _of_services(check: Check, entry: Any) -> bool:
    """``SERVICE[:...]`` of the document; ``container:NAME`` is somebody else's."""
    return str(entry).partition(":")[0] in check.declared["services"]


def _of(section: str) -> Rule:
    """References to what the document's section declares."""

    def fits(check: Check, entry: Any) -> bool:
        name = entry.get("source") if isinstance(entry, Mapping) else entry
        return str(name) in check.declared[section]

    return _each(fits, "not declared in the document")


def _tmpfs(check: Check, entry: Any) -> bool:
    path, _, options = str(entry).partition(":")
    return path.startswith("/") and all(_TMPFS_OPTION.fullmatch(one) for one in options.split(",") if one)


def _capability(check: Check, entry: Any) -> bool:
    return str(entry).upper().removeprefix("CAP_") in CAPABILITIES


def _security_option(check: Check, entry: Any) -> bool:
    return str(entry).replace("=", ":") in ("no-new-privileges", "no-new-privileges:true", "no-new-privileges:false")


def _sysctl(check: Check, entry: Any) -> bool:
    return _SYSCTL.fullmatch(str(entry).partition("=")[0].strip()) is not None


def _extra_host(check: Check, entry: Any) -> bool:
    return "host-gateway" not in str(entry)


def _restart(check: Check, service: str, key: str, value: Any) -> Any:
    """What restarts for ever would also come back with the engine, long after its study."""
    return "on-failure" if value in ("always", "unless-stopped") else value


def _logging(check: Check, service: str, key: str, value: Any) -> Any:
    place = f"services.{service}.logging"
    if not _is_mapping(check, place, value):
        return value or None
    driver, options = value.get("driver"), value.get("options") or {}
    if not _is_mapping(check, f"{place}.options", options):
        return value
    if driver not in (None, *LOG_DRIVERS):
        check.refuse(f"{place}.driver: {driver}", OUT)
    for option in options:
        if option not in LOG_OPTIONS:
            check.refuse(f"{place}.options.{option}", UNLISTED)
    return value or None


def _deploy(check: Check, service: str, key: str, value: Any) -> Any:
    """Replicas and resources; what a swarm does with a service means nothing here."""
    given = value if isinstance(value, Mapping) else {}
    place = f"services.{service}.deploy"
    resources = given.get("resources") or {}
    for side, about in resources.items() if _is_mapping(check, f"{place}.resources", resources) else ():
        for name in (about or ()) if _is_mapping(check, f"{place}.resources.{side}", about) else ():
            if name not in ("cpus", "memory", "pids"):
                check.refuse(f"{place}.resources.{side}.{name}", UNLISTED)
    if given.get("mode") not in (None, "replicated"):
        check.refuse(f"{place}.mode: {given['mode']}", UNLISTED)
    kept = {name: given[name] for name in ("replicas", "resources") if given.get(name) is not None}
    return kept or None


def _depends_on(check: Check, service: str, key: str, value: Any) -> Any:
    """Services, or what is wanted of each."""
    place = f"services.{service}.depends_on"
    if isinstance(value, Mapping):
        for name, how in value.items():
            _is_mapping(check, f"{place}.{name}", how)
    elif value is not None and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        check.refuse(place, "neither a list of services nor a mapping")
    return value or None


def _is_mapping(check: Check, place: str, value: Any) -> bool:
    """Whether it is one; else it is refused, unless there is nothing."""
    if value and not isinstance(value, Mapping):
        check.refuse(place, "no mapping")
    return isinstance(value, Mapping)


def members(value: Any) -> list[Any]:
    """A list, or the only one of it."""
    return value if isinstance(value, list) else [] if value is None else [value]


def pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of either form of a mapping; None: a name without a value."""
    if isinstance(value, Mapping):
        yield from value.items()
    for item in value if isinstance(value, list) else ():
        name, given, text = str(item).partition("=")
        yield name, text if given else None


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(PLAIN, _handed_on),
    **dict.fromkeys(UNUSED, _unused),
    "cap_add": _each(_capability),
    "cgroup": _only("private"),
    "configs": _of("configs"),
    "container_name": _left_out("container_name"),
    "depends_on": _depends_on,
    "deploy": _deploy,
    "env_file": _env_file,
    "environment": _environment,
    "extra_hosts": _each(_extra_host),
    "ipc": _only("private", "shareable", "none", of_services=True),
    "labels": _labels,
    "links": _each(_of_services),
    "logging": _logging,
    "mac_address": _left_out("addresses"),
    "network_mode": _only("none", of_services=True),
    "networks": _networks,
    "pid": _only(of_services=True),
    "ports": _ports,
    "restart": _restart,
    "secrets": _of("secrets"),
    "security_opt": _each(_security_option),
    "sysctls": _each(_sysctl),
    "tmpfs": _each(_tmpfs, UNLISTED),
    "volumes": _volumes,
    "volumes_from": _each(_of_services),
}
