"""Tracing that Tailor adds: a Jaeger of its own, and the variables by which services export their spans to it.

Many applications can make spans and have nowhere to send them, or send them to a store that a study cannot read.
The user's files stay as they are: the service and the variables stand in the study's document only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from framework.errors import InputError
from framework.model import Application, Service
from framework.model.application import EXPORT_DELAY_S, TraceApi, Tracing

ADDED = "tailor-jaeger"
"""The service that Tailor adds."""

IMAGE = "jaegertracing/jaeger:2.13.0"
TYPE = "jaeger"

PORTS: Mapping[TraceApi, int] = {"jaeger": 16686, "zipkin": 9411, "tempo": 3200}
"""Port of each API where its server has its defaults."""

PROPAGATION: Mapping[str, tuple[str, ...]] = {"zipkin": ("w3c", "b3-multi")}
"""Formats of a trace's context by API, where the application names none: Zipkin's own libraries read B3."""

OTLP_PORT, OTLP_GRPC_PORT = 4318, 4317

DELAY = "OTEL_BSP_SCHEDULE_DELAY"
DELAY_MS = 1000
"""Time for which services hold spans back where Tailor sets it: OpenTelemetry's default of 5 s is waited for in every
repetition."""

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def with_tracing(application: Application) -> Application:
    """Return the application with the services and variables that its tracing adds.

    Raises InputError where no service can export spans to a Jaeger that is added.
    """
    tracing = application.tracing
    if tracing is None:
        return application
    if not tracing.added:
        return replace(application, tracing=replace(tracing, export_delay_s=_delay_of(application.environments)))
    sources = _sources(application, tracing)
    changes = {name: exports_to(tracing, application.environment_of(name)) for name in sources}
    if tracing.collector:
        changes = {name: {} for name in sources}  # the collector's exporter is in its file; services keep theirs
    services: dict[str, Any] = dict(application.compose["services"])
    for name, variables in changes.items():
        services[name] = with_variables(services[name], variables)
    services[ADDED] = _jaeger(services[name] for name in sources)
    environments = {
        name: {**application.environments.get(name, {}), **variables} for name, variables in changes.items()
    }
    delay_s = _delay_of(application.environments) if tracing.collector else _longest_s(environments)
    return replace(
        application,
        compose={**application.compose, "services": services},
        services=(*application.services, Service(ADDED, TYPE, application.hosts[0], tuned=False)),
        environments={**application.environments, **environments},
        tracing=replace(tracing, export_delay_s=delay_s),
    )


def exports_to(tracing: Tracing, today: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which a service exports spans to the tracing service.

    ``today``: those that it has.  Its protocol stays; where it has none, its endpoint's port says which.
    """
    protocol = next((today[name] for name in _PROTOCOLS if today.get(name)), "")
    endpoint = next((today[name] for name in reversed(_ENDPOINTS) if today.get(name)), "")
    grpc = protocol == "grpc" or (not protocol and f":{OTLP_GRPC_PORT}" in endpoint)
    port = OTLP_GRPC_PORT if grpc else tracing.otlp_port
    variables = {_ENDPOINTS[0]: f"http://{tracing.service}:{port}"}
    if not protocol and not grpc:
        variables[_PROTOCOLS[1]] = "http/protobuf"
    if _ENDPOINTS[1] in today:  # it goes before the other, and is used as it stands
        variables[_ENDPOINTS[1]] = variables[_ENDPOINTS[0]] + ("" if grpc else "/v1/traces")
    if today.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        variables["OTEL_TRACES_EXPORTER"] = "otlp"
    if today.get("OTEL_SDK_DISABLED", "").lower() == "true":
        variables["OTEL_SDK_DISABLED"] = "false"
    if DELAY not in today:
        variables[DELAY] = str(DELAY_MS)
    return variables


def with_variables(service: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return a compose service with further variables, in the form that its ``environment`` has."""
    if not variables:
        return dict(service)
    given = service.get("environment") or {}
    if isinstance(given, Mapping):
        return {**service, "environment": {**given, **variables}}
    kept = [item for item in given if str(item).partition("=")[0] not in variables]
    return {**service, "environment": [*kept, *(f"{name}={value}" for name, value in variables.items())]}


def _sources(application: Application, tracing: Tracing) -> list[str]:
    """Return the services that send spans to a Jaeger that is added.  Raises InputError where there are none."""
    services = application.compose["services"]
    if tracing.collector:
        return [tracing.collector, *(name for name in tracing.instrument if name != tracing.collector)]
    exporting = [
        name for name in services if any(key.startswith("OTEL_") for key in application.environments.get(name, {}))
    ]
    sources = list(dict.fromkeys([*exporting, *tracing.instrument]))
    if not sources:
        raise InputError(
            f"{application.name}: tracing.add: no service has OTEL_ variables, so none would send spans; allowed: "
            "`instrument: {SERVICE: java}` (or node, python), `collector: SERVICE`, or no tracing"
        )
    return sources


def _jaeger(sources: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the service that is added, on every network of those that send spans to it."""
    networks: dict[str, None] = {}
    for service in sources:
        networks |= dict.fromkeys(service.get("networks") or ["default"])
    entry: dict[str, Any] = {
        "image": IMAGE,
        "environment": {"JAEGER_LISTEN_HOST": "0.0.0.0"},  # inside its container only
        "tmpfs": ["/tmp"],
    }
    return entry if list(networks) == ["default"] else {**entry, "networks": list(networks)}


def _delay_of(environments: Mapping[str, Mapping[str, str]]) -> float:
    """Return the time for which services hold spans back: the default, or longer where one of them says so."""
    return max(EXPORT_DELAY_S, _longest_s(environments))


def _longest_s(environments: Mapping[str, Mapping[str, str]]) -> float:
    texts = [variables[DELAY] for variables in environments.values() if DELAY in variables]
    numbers = [int(text) / 1000 if text.strip().isdigit() else EXPORT_DELAY_S for text in texts]
    return max(numbers, default=0.0)
