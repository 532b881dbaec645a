"""Services of Kubernetes: the names under which the services of an application find each other.

A service that declares its ports is a Service with these.  One that does not becomes a headless Service: its name
resolves to its pods, whose ports can all be reached, as in compose.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framework.compose.allow_list import members, pairs
from framework.kubernetes.names import is_label
from framework.kubernetes.said import Said

MOST_PORTS = 100  # of a range that is written out


@dataclass(frozen=True, order=True, slots=True)
class Port:
    """A port of a container."""

    number: int
    protocol: str = "TCP"


def ports_of(name: str, entry: Mapping[str, Any], known: Iterable[int], said: Said) -> Sequence[Port]:
    """Return the ports of a service: those that it exposes or publishes, and ``known`` ones."""
    ports = {Port(number) for number in known}
    for given in members(entry.get("expose")):
        ports |= set(_range(name, "expose", str(given), said))
    for given in members(entry.get("ports")):
        if isinstance(given, Mapping):
            target, published = f"{given.get('target')}/{given.get('protocol') or 'tcp'}", given.get("published")
        else:
            before, _, target = str(given).rpartition(":")
            published = before.rpartition(":")[2]
        own = _range(name, "ports", target, said)
        ports |= set(own)
        if own:
            outside = f" (compose publishes it as {published})" if published else ""
            said.say(name, "ports", f"port {own[0].number} is reached inside of the cluster only{outside}; from "
                     f"outside: kubectl port-forward service/NAME PORT:{own[0].number}, an Ingress, or a Service "
                     "of type LoadBalancer")  # fmt: skip
    return sorted(ports)


def _range(name: str, key: str, text: str, said: Said) -> list[Port]:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?(?:/(tcp|udp|sctp))?", text.strip().lower())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if match is None or not 1 <= first <= last <= 65_535 or last - first >= MOST_PORTS:
        said.refuse(name, key, f"found {text!r}; allowed: a port, or a range of at most {MOST_PORTS}")
        return []
    return [Port(number, (match[3] or "tcp").upper()) for number in range(first, last + 1)]


def mentioned(name: str, texts: Iterable[str]) -> set[int]:
    """Return the ports at which texts address a service: ``NAME:PORT``."""
    pattern = re.compile(rf"(?<![\w.-]){re.escape(name)}:(\d{{1,5}})(?!\d)")
    return {port for text in texts for number in pattern.findall(text) if 1 <= (port := int(number)) <= 65_535}


def says(name: str, text: str) -> bool:
    """Return whether a text has a name as a word of its own."""
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None


def service_object(name: str, selector: Mapping[str, str], ports: Sequence[Port]) -> dict[str, Any]:
    """Return the Service ``name``, headless where no ports are known."""
    spec: dict[str, Any] = {"selector": dict(selector)}
    if ports:
        spec["ports"] = [
            {"name": f"{port.protocol.lower()}-{port.number}", "port": port.number, "protocol": port.protocol}
            for port in ports
        ]
    else:  # as in compose, the name resolves as soon as the container runs
        spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def further_names(name: str, entry: Mapping[str, Any], said: Said) -> list[str]:
    """Return the other names of a service: aliases on its networks, and its container's name."""
    wanted = [str(entry["container_name"])] if entry.get("container_name") else []
    networks = entry.get("networks")
    for options in networks.values() if isinstance(networks, Mapping) else ():
        wanted += [str(alias) for alias in (options or {}).get("aliases") or ()]
    for option in {
        o for options in (networks.values() if isinstance(networks, Mapping) else ()) for o in options or {}
    }:
        if option not in ("aliases", "priority", "gw_priority"):
            said.say(name, f"networks: {option}", "pods get their addresses from the cluster")
    names = []
    for other in dict.fromkeys(wanted):
        if other == name:
            continue
        if is_label(other):
            names.append(other)
        else:
            said.refuse(
                name, f"name {other}", "cannot be the name of a Service: small letters, digits and hyphens only"
            )
    return names


def host_aliases(name: str, entry: Mapping[str, Any], said: Said) -> list[dict[str, Any]]:
    """Return ``extra_hosts`` as lines of the pod's hosts file."""
    given = entry.get("extra_hosts")
    lines = list(pairs(given)) if isinstance(given, Mapping) else []
    for item in given if isinstance(given, list) else ():
        text = str(item)
        separator = "=" if "=" in text else ":"
        lines.append(text.partition(separator)[::2])
    by_address: dict[str, list[str]] = {}
    for host, addresses in lines:
        for address in members(addresses):
            plain = str(address).strip().strip("[]")
            try:
                ipaddress.ip_address(plain)
            except ValueError:
                said.refuse(name, f"extra_hosts: {host}", f"{plain or 'nothing'} is no address of a cluster")
                continue
            by_address.setdefault(plain, []).append(str(host).strip())
    return [{"ip": address, "hostnames": hosts} for address, hosts in by_address.items()]
