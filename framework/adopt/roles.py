"""The part that each service plays: one-shot, load generator, monitoring, tracing, or one of the application proper.

Calls are read from the files: a service that another's variables, command or configuration names is called by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from framework.adopt.recognition import image_path, listening, ports_of
from framework.compose.command import words_of
from framework.model import Application

BEHIND_PROFILE = "it stands behind the profile tailor"
Role = Literal["service", "one-shot", "load generator", "monitoring", "tracing"]

_TRACING = {
    "jaeger": r"jaegertracing/.*|.*jaeger(-all-in-one|-query)?|all-in-one",
    "zipkin": r".*zipkin.*",
    "tempo": r".*tempo",
    "collector": r".*opentelemetry-collector.*|.*otel-collector.*|.*otelcol.*",
}
_MONITORING = re.compile(
    r".*(prometheus|grafana|cadvisor|node-exporter|.*[-_]exporter|loki|promtail|alertmanager|kibana|logstash|filebeat|"
    r"metricbeat|fluentd|fluent-bit|datadog|agent|portainer|dozzle|adminer|pgadmin.*|phpmyadmin|mongo-express|"
    r"redis-?commander|redisinsight|mailhog|mailpit|kafka-ui|kafdrop|cerebro|opensearch-dashboards|watchtower).*"
)
_GENERATORS = re.compile(
    r".*(locust|k6|wrk2?|jmeter|vegeta|gatling|artillery|load-?gen(erator)?|load-?test|loadtest).*"
)
_ONE_SHOTS = re.compile(
    r".*(migrat|seed|init|setup|bootstrap|create|import|fixture|wait[-_]?for|provision|db-?prepare).*"
)
_NO_HOST = re.compile(r".*(USER|USERNAME|LOGIN|PASS|PASSWORD|SECRET|_DB|DATABASE|DBNAME|_NAME)", re.IGNORECASE)
"""Variables whose values often equal the name of a service that they do not mean."""
_DATABASE_PORTS = frozenset({3306, 5432, 6379, 11211, 27017, 9092, 5672, 9200, 1433, 2181, 4222, 9042, 6432})
_HTTP_PORTS = (80, 8080, 443, 8000, 3000, 5000, 8443, 9000, 4000, 8888, 1337, 2368, 8081)


@dataclass(frozen=True, slots=True)
class Part:
    """A service's role, why it has it, and the services that it calls."""

    role: Role
    reason: str
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """The service that clients call, its port inside the network and its scheme; why it is the one.

    ``address``: host and port by which the user's clients call it, empty where it publishes none.
    """

    service: str
    port: int
    scheme: Literal["http", "https"]
    reason: str
    certain: bool
    others: tuple[str, ...] = ()  # services that it might be as well
    address: str = ""


def parts_of(application: Application) -> dict[str, Part]:
    """Return service -> its part."""
    services: Mapping[str, Mapping[str, Any]] = application.compose["services"]
    calls = {name: calls_of(application, name) for name in services}
    awaited = {
        name
        for entry in services.values()
        for name, how in _conditions(entry).items()
        if how == "service_completed_successfully"
    }
    return {name: Part(*_role(name, entry, name in awaited), calls[name]) for name, entry in services.items()}


def _role(name: str, entry: Mapping[str, Any], awaited: bool) -> tuple[Role, str]:
    image = image_path(str(entry.get("image") or ""))
    if awaited:
        return "one-shot", "others wait for it to complete"
    if "tailor" in (entry.get("profiles") or ()):
        return "one-shot", BEHIND_PROFILE
    for kind, pattern in _TRACING.items():
        if re.fullmatch(pattern, image):
            return "tracing", f"its image {image} is {kind}"
    for text, what in ((name, "its name"), (image.rpartition("/")[2], "its image")):
        if _GENERATORS.fullmatch(text):
            return "load generator", f"{what} is {text}"
        if text and _MONITORING.fullmatch(text):
            return "monitoring", f"{what} is {text}"
    restart = str(entry.get("restart") or "no")
    if _ONE_SHOTS.fullmatch(name) and restart in ("no", "false", "on-failure") and not listening(entry):
        return "one-shot", f"it is called {name}, and nothing restarts it"
    return "service", ""


def tracing_of(application: Application, parts: Mapping[str, Part]) -> dict[str, str]:
    """Return kind of tracing back-end ("jaeger", "zipkin", "tempo", "collector") -> the service that is it."""
    back_ends: dict[str, str] = {}
    for name, part in parts.items():
        image = image_path(str(application.compose["services"][name].get("image") or ""))
        if part.role == "tracing":
            kind = next(kind for kind, pattern in _TRACING.items() if re.fullmatch(pattern, image))
            back_ends.setdefault(kind, name)
    return back_ends


def calls_of(application: Application, service: str) -> tuple[str, ...]:
    """Return the services that a service's variables, command or ``depends_on`` name, in the order of the file."""
    services: Mapping[str, Mapping[str, Any]] = application.compose["services"]
    entry = services[service]
    texts = [text for name, text in application.environments.get(service, {}).items() if not _NO_HOST.fullmatch(name)]
    texts += [*(words_of(entry.get("command")) or ()), *(words_of(entry.get("entrypoint")) or ())]
    named = {str(link).partition(":")[0] for link in entry.get("links") or []} | set(_conditions(entry))
    return tuple(
        other
        for other in services
        if other != service
        and (other in named or any(_names(text, names_of(other, services[other])) for text in texts))
    )


def names_of(service: str, entry: Mapping[str, Any]) -> frozenset[str]:
    """Return the names that others reach a service by: its own, its container's and its aliases."""
    networks = entry.get("networks")
    aliases = (
        alias
        for options in (networks.values() if isinstance(networks, Mapping) else ())
        for alias in ((options or {}).get("aliases") or ())
    )
    return frozenset(filter(None, (service, str(entry.get("container_name") or ""), entry.get("hostname"), *aliases)))


def _names(text: str, names: frozenset[str]) -> bool:
    """Return whether a text names a host: by itself, in an address, with a port or in a list."""
    return any(re.search(rf"(^|[/@,;=\s]){re.escape(name)}($|[:/,;?\s])", text) for name in names)


def _conditions(entry: Mapping[str, Any]) -> dict[str, str]:
    needs = entry.get("depends_on") or {}
    if isinstance(needs, Mapping):
        return {name: str((how or {}).get("condition", "")) for name, how in needs.items()}
    return dict.fromkeys(needs, "")


def entry_of(application: Application, parts: Mapping[str, Part], databases: frozenset[str]) -> Entry | None:
    """Return the service that clients call; None where no service can be it.

    It publishes a port that HTTP may be on, is called by no other service, and is no database or monitoring.  Of
    several, it is the one that reaches most others; then the one with the most usual port.
    """
    services: Mapping[str, Mapping[str, Any]] = application.compose["services"]
    candidates = {name for name, part in parts.items() if part.role == "service" and name not in databases}
    called = {name for caller, part in parts.items() if caller in candidates for name in part.calls}
    rows = []
    for name in candidates:
        published = [port for port in _published(services[name]) if port not in _DATABASE_PORTS]
        facts = application.images.get(name)
        ports = published or sorted(listening(services[name])) or list(facts.ports if facts is not None else ())
        port = min(ports, key=_usual, default=None)
        rows.append((not published, name in called, -len(_reached(name, parts)), _usual(port), name, port))
    if not rows:
        return None
    unpublished, is_called, _, _, name, port = min(rows)
    reasons = [
        "it publishes no port" if unpublished else f"it publishes port {port}",
        "others call it" if is_called else "no other service calls it",
    ]
    alike = [row for row in rows if row[:2] == (unpublished, is_called)]
    others = tuple(row[4] for row in sorted(alike) if row[4] != name)
    certain = not unpublished and not is_called and not others
    scheme: Literal["http", "https"] = "https" if port in (443, 8443) else "http"
    address = _address(services[name], port, scheme)
    return Entry(name, port or 80, scheme, " and ".join(reasons), certain, others, address)


def _usual(port: int | None) -> int:
    return _HTTP_PORTS.index(port) if port in _HTTP_PORTS else len(_HTTP_PORTS)


def _published(entry: Mapping[str, Any]) -> list[int]:
    return sorted(listening({"ports": entry.get("ports")}))


def _address(entry: Mapping[str, Any], port: int | None, scheme: str) -> str:
    """Return the address of a published port on the user's machine, as a browser there names it."""
    for published, target in ports_of(entry):
        if target == str(port) and published.isdecimal():
            usual = {"http": "80", "https": "443"}[scheme]
            return "localhost" if published == usual else f"localhost:{published}"
    return ""


def _reached(name: str, parts: Mapping[str, Part]) -> set[str]:
    """Return the services that a service reaches by calls, its own and those of others."""
    reached: set[str] = set()
    pending = [name]
    while pending:
        for other in parts[pending.pop()].calls:
            if other not in reached:
                reached.add(other)
                pending.append(other)
    return reached - {name}
