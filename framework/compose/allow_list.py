"""The allow-list: each key that a service of a compose file may have, and its values.

A rule gets the check, the service's name, the key and its value with variables filled in.  It returns the value that
compose gets, or None to leave the key out.  A key without a rule is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from framework.compose.checking import Check, how_to_pass
from framework.compose.interpolation import InterpolationError

Rule = Callable[[Check, str, str, Any], Any]

TYPE_LABEL = "tailor.type"
DEFAULT = "default"  # the network of services that name none
UNLISTED = "not on the list of what a study may use"
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
# Docker's default list: the capabilities of a container that asks for none.
CAPABILITIES = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
LOG_DRIVERS = ("json-file", "local", "none")
LOG_OPTIONS = frozenset({"max-size", "max-file", "max-buffer-size", "compress", "mode", "labels", "env", "tag"})
_SYSCTL = re.compile(r"(net|kernel\.(msg|sem|shm)|fs\.mqueue)[a-z0-9_.]*")  # of a container's own namespaces
_TMPFS_OPTION = re.compile(r"(size|mode|uid|gid|nr_inodes)=\w+%?|exec|noexec|nosuid|nodev|rw|ro|noatime")


def _unchanged(check: Check, service: str, key: str, value: Any) -> Any:
    return value


def _unused(check: Check, service: str, key: str, value: Any) -> None:
    return None


def _left_out(kind: str) -> Rule:
    def rule(check: Check, service: str, key: str, value: Any) -> None:
        if value:
            check.leave_out(kind, service)

    return rule


def _ports(check: Check, service: str, key: str, value: Any) -> None:
    """Leave ports out; refuse an address that other machines can reach, since it was chosen on purpose."""
    for entry in members(value):
        address = str(entry.get("host_ip") or "") if isinstance(entry, Mapping) else _address(str(entry))
        if address and not (address.startswith("127.") or address in ("::1", "localhost")):
            check.refuse(f"services.{service}.ports: {address}", "an address that others can reach")
        check.leave_out("ports", service)


def _address(port: str) -> str:
    """Return the address of a short entry, ``[ADDRESS:][PUBLISHED:]TARGET``; empty without one."""
    if port.startswith("["):
        return port[1:].partition("]")[0]
    parts = port.rsplit(":", 2)
    return parts[0].strip() if len(parts) == 3 else ""


def _labels(check: Check, service: str, key: str, value: Any) -> dict[str, str] | None:
    """Keep Tailor's label only: others may make a proxy send requests to the container, or an updater restart it."""
    given = dict(pairs(value))
    if given.keys() - {TYPE_LABEL}:
        check.leave_out("labels", service)
    return {TYPE_LABEL: str(given[TYPE_LABEL])} if TYPE_LABEL in given else None


def _environment(check: Check, service: str, key: str, value: Any) -> dict[str, Any]:
    """Give a variable without a value the operator's, where that is passed on; else leave it out."""
    variables: dict[str, Any] = {}
    for name, text in pairs(value):
        try:
            variables[name] = check.variables.get(name) if text is None else text
        except InterpolationError as error:
            check.refuse(f"services.{service}.environment.{name}", error.reason, how_to_pass(name))
    return {name: text for name, text in variables.items() if text is not None}


def _env_file(check: Check, service: str, key: str, value: Any) -> list[Any]:
    files: list[Any] = []
    for entry in members(value):
        file = dict(entry) if isinstance(entry, Mapping) else {"path": entry}
        path = check.path(str(file.get("path", "")))
        why = check.not_readable(path, needed=file.get("required") is not False)
        if file.keys() - {"path", "required"}:
            why = UNLISTED
        if not why or not check.refuse(f"services.{service}.env_file: {file.get('path')}", why):
            files.append({**file, "path": path} if isinstance(entry, Mapping) else path)
    return files


def _volumes(check: Check, service: str, key: str, value: Any) -> list[dict[str, Any]]:
    return [mount for entry in members(value) if (mount := check.mount(service, entry)) is not None]


def _networks(check: Check, service: str, key: str, value: Any) -> dict[str, Any]:
    """Keep networks of the document and the service's aliases there; leave fixed addresses out."""
    networks: dict[str, Any] = {}
    listed = value.items() if isinstance(value, Mapping) else [(str(name), None) for name in members(value)]
    for name, options in listed:
        place = f"services.{service}.networks.{name}"
        if name not in check.declared["networks"] and name != DEFAULT:
            check.refuse(place, "not declared", "declare it under networks")
        given = dict(options) if isinstance(options, Mapping) else {}
        networks[name] = {"aliases": given["aliases"]} if given.get("aliases") else None
        for option in given:
            if option in ("ipv4_address", "ipv6_address", "link_local_ips", "mac_address"):
                check.leave_out("addresses", service)
            elif option not in ("priority", "gw_priority", "aliases"):
                check.refuse(f"{place}.{option}", UNLISTED)
    return networks


def _only(*values: str, of_services: bool = False) -> Rule:
    """Make a rule that allows these values and, with ``of_services``, ``service:NAME`` of a service of the document."""

    def rule(check: Check, service: str, key: str, value: Any) -> Any:
        text = "" if value is None or value is False else str(value)
        kind, _, other = text.partition(":")
        if text in ("", *values) or (of_services and kind == "service" and other in check.declared["services"]):
            return text or None
        return None if check.refuse(f"services.{service}.{key}: {text}", OUT) else value

    return rule


def _each(fits: Callable[[Check, Any], bool], why: str = OUT) -> Rule:
    """Make a rule for lists, and for mappings read as ``name=value``: ``fits`` says which members are allowed."""

    def rule(check: Check, service: str, key: str, value: Any) -> Any:
        listed = [f"{name}={text}" for name, text in value.items()] if isinstance(value, Mapping) else members(value)
        for member in listed:
            if not fits(check, member):
                check.refuse(f"services.{service}.{key}: {str(member)[:200]}", why)
        return value or None

    return rule


def _names_a_service(check: Check, entry: Any) -> bool:
    """Return whether ``SERVICE[:...]`` is of the document; ``container:NAME`` may be any container of the engine."""
    return str(entry).partition(":")[0] in check.declared["services"]


def _declared_in(section: str) -> Rule:
    """Make a rule that allows references to names which the section of the document declares."""

    def fits(check: Check, entry: Any) -> bool:
        name = entry.get("source") if isinstance(entry, Mapping) else entry
        return str(name) in check.declared[section]

    return _each(fits, "not declared in the document")


def _tmpfs(check: Check, entry: Any) -> bool:
    path, _, options = str(entry).partition(":")
    return path.startswith("/") and all(_TMPFS_OPTION.fullmatch(option) for option in options.split(",") if option)


def _capability(check: Check, entry: Any) -> bool:
    return str(entry).upper().removeprefix("CAP_") in CAPABILITIES


def _security_option(check: Check, entry: Any) -> bool:
    return str(entry).replace("=", ":") in ("no-new-privileges", "no-new-privileges:true", "no-new-privileges:false")


def _sysctl(check: Check, entry: Any) -> bool:
    return _SYSCTL.fullmatch(str(entry).partition("=")[0].strip()) is not None


def _extra_host(check: Check, entry: Any) -> bool:
    return "host-gateway" not in str(entry)


def _restart(check: Check, service: str, key: str, value: Any) -> Any:
    """Let containers restart on failure only: the engine would start others again long after their study."""
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
    """Keep replicas and resources; other keys matter to a swarm only."""
    given = value if isinstance(value, Mapping) else {}
    place = f"services.{service}.deploy"
    resources = given.get("resources") or {}
    for side, amounts in resources.items() if _is_mapping(check, f"{place}.resources", resources) else ():
        for name in (amounts or ()) if _is_mapping(check, f"{place}.resources.{side}", amounts) else ():
            if name not in ("cpus", "memory", "pids"):
                check.refuse(f"{place}.resources.{side}.{name}", UNLISTED)
    if given.get("mode") not in (None, "replicated"):
        check.refuse(f"{place}.mode: {given['mode']}", UNLISTED)
    kept = {name: given[name] for name in ("replicas", "resources") if given.get(name) is not None}
    return kept or None


def _depends_on(check: Check, service: str, key: str, value: Any) -> Any:
    """Allow a list of services, or a mapping of services to conditions."""
    place = f"services.{service}.depends_on"
    if isinstance(value, Mapping):
        for name, condition in value.items():
            _is_mapping(check, f"{place}.{name}", condition)
    elif value is not None and not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        check.refuse(place, "neither a list of services nor a mapping")
    return value or None


def _is_mapping(check: Check, place: str, value: Any) -> bool:
    """Return whether ``value`` is a mapping; refuse anything else that is not empty."""
    if value and not isinstance(value, Mapping):
        check.refuse(place, "no mapping")
    return isinstance(value, Mapping)


def members(value: Any) -> list[Any]:
    """Return a list as it is, a single value as a list of one, and None as an empty list."""
    return value if isinstance(value, list) else [] if value is None else [value]


def pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values of a mapping, or of a list of ``name=value``; None for a name without a value."""
    if isinstance(value, Mapping):
        yield from value.items()
    for item in value if isinstance(value, list) else ():
        name, given, text = str(item).partition("=")
        yield name, text if given else None


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(PLAIN, _unchanged),
    **dict.fromkeys(UNUSED, _unused),
    "cap_add": _each(_capability),
    "cgroup": _only("private"),
    "configs": _declared_in("configs"),
    "container_name": _left_out("container_name"),
    "depends_on": _depends_on,
    "deploy": _deploy,
    "env_file": _env_file,
    "environment": _environment,
    "extra_hosts": _each(_extra_host),
    "ipc": _only("private", "shareable", "none", of_services=True),
    "labels": _labels,
    "links": _each(_names_a_service),
    "logging": _logging,
    "mac_address": _left_out("addresses"),
    "network_mode": _only("none", of_services=True),
    "networks": _networks,
    "pid": _only(of_services=True),
    "ports": _ports,
    "restart": _restart,
    "secrets": _declared_in("secrets"),
    "security_opt": _each(_security_option),
    "sysctls": _each(_sysctl),
    "tmpfs": _each(_tmpfs, UNLISTED),
    "volumes": _volumes,
    "volumes_from": _each(_names_a_service),
}
