"""The hosts that a large application would be spread over: web servers, its own programs, stores, monitoring.

On one machine they mean nothing; they say what stands together where there are several.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.adopt.recognition import Recognised
from framework.adopt.roles import Part

MANY = 10  # services, below which one host is proposed
HOSTS = ("frontend", "logic", "backend", "monitoring")
OF_TIERS = {"web server": "frontend", "program": "logic", "store": "backend"}


def proposed_hosts(parts: Mapping[str, Part], types: Mapping[str, Recognised]) -> dict[str, str]:
    """Return service -> host, of the services with a type and of Jaeger; nothing for a small application."""
    lasting = {name: part for name, part in parts.items() if part.role in ("service", "tracing")}
    if len(lasting) < MANY:
        return {}
    named = {name: part for name, part in lasting.items() if name in types or part.role == "tracing"}
    return {name: _host(part, types.get(name)) for name, part in named.items()}


def _host(part: Part, match: Recognised | None) -> str:
    if part.role == "tracing":
        return "monitoring"
    return OF_TIERS[match.tier if match is not None else "program"]
