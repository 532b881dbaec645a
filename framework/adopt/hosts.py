"""The hosts that a large application would be spread over: web servers, its own programs, stores, monitoring.

On one machine they mean nothing; they say what stands together where there are several.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.adopt.recognition import Recognised
from framework.adopt.roles import Part

MANY = 10  # services, below which one host is proposed
HOSTS = ("frontend", "logic", "backend", "monitoring")
WEB_SERVERS = frozenset({"nginx", "openresty", "httpd", "haproxy", "envoy", "traefik"})
STORES = frozenset(
    {
        "postgresql", "pgbouncer", "mysql", "mariadb", "mongodb", "redis", "valkey", "memcached", "kafka", "rabbitmq",
        "elasticsearch", "opensearch",
    }
)  # fmt: skip


def proposed_hosts(parts: Mapping[str, Part], types: Mapping[str, Recognised]) -> dict[str, str]:
    """Return service -> host, of the services with a type and of tracing; nothing for a small application."""
    lasting = {name: part for name, part in parts.items() if part.role in ("service", "tracing")}
    if len(lasting) < MANY:
        return {}
    return {name: _host(part, types.get(name)) for name, part in lasting.items()}


def _host(part: Part, match: Recognised | None) -> str:
    if part.role == "tracing":
        return "monitoring"
    kind = match.type if match is not None else ""
    return "frontend" if kind in WEB_SERVERS else "backend" if kind in STORES else "logic"
