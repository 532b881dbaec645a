"""Entries of the engine's list of containers: one cheap call returns all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SERVICE = "com.docker.compose.service"


@dataclass(frozen=True, slots=True)
class Listed:
    """One container as the engine's list shows it."""

    id: str
    name: str
    state: str  # created, running, paused, restarting, removing, exited, dead
    status: str  # for people: "Up 3 seconds (healthy)", "Exited (1) 2 seconds ago"
    image_id: str
    labels: Mapping[str, str]
    addresses: Mapping[str, str] = field(default_factory=dict)  # network -> IP
    ports: tuple[int, ...] = ()  # TCP ports that it or its image declares

    @property
    def service(self) -> str:
        """Its compose service; empty for a one-shot, and for a container that compose did not make."""
        oneoff = self.labels.get("com.docker.compose.oneoff", "False").lower() == "true"
        return "" if oneoff else self.labels.get(SERVICE, "")


def listed(entry: Mapping[str, Any]) -> Listed:
    networks = (entry.get("NetworkSettings") or {}).get("Networks") or {}
    return Listed(
        id=entry["Id"],
        name=(entry.get("Names") or ["/"])[0].lstrip("/"),
        state=entry["State"],
        status=entry["Status"],
        image_id=entry["ImageID"],
        labels=entry.get("Labels") or {},
        addresses={name: network.get("IPAddress") or "" for name, network in networks.items()},
        ports=tuple(sorted({port["PrivatePort"] for port in entry.get("Ports") or () if port.get("Type") == "tcp"})),
    )
