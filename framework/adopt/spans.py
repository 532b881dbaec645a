"""Where the spans of an application that somebody else wrote can come from, as `tracing` of its application.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.adopt.recognition import Recognised
from framework.adopt.roles import Part
from framework.model import Application

AGENTS: Mapping[str, str] = {
    "jvm": "java", "spring-boot": "java", "node": "node",
    "python-gunicorn": "python", "python-uvicorn": "python", "celery": "python",
}  # fmt: skip
"""Service type -> language of the agent that can make its spans."""

_LIBRARIES = (("JAEGER_", "jaeger"), ("ZIPKIN_", "b3-multi"))
"""Prefix of the variables of older libraries, and the format of a trace's context that they read."""


def tracing_entry(
    application: Application, parts: Mapping[str, Part], back_ends: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return `tracing` of application.yaml; None where no service sends spans to anywhere.

    ``back_ends``: kind of tracing service -> its name.  One that a study can read is read; a collector gets an exporter
    more; services that export spans get a Jaeger.
    """
    entry: dict[str, Any] | None = None
    exporting = [name for name, part in parts.items() if part.role == "service" and _exports(application, name)]
    if "jaeger" in back_ends:
        entry = {"service": back_ends["jaeger"]}
    elif kind := next((kind for kind in ("tempo", "zipkin") if kind in back_ends), None):
        entry = {"service": back_ends[kind], "api": kind}
    elif "collector" in back_ends:
        entry = {"add": "jaeger", "collector": back_ends["collector"]}
    elif exporting:
        entry = {"add": "jaeger"}
    if entry is None:
        return None
    further = _further_formats(application, parts)
    return {**entry, "propagation": ["w3c", *further]} if further and entry.get("api") != "zipkin" else entry


def agents_offered(parts: Mapping[str, Part], types: Mapping[str, Recognised]) -> dict[str, str]:
    """Return service -> language of the agent that could make its spans."""
    languages = {name: AGENTS.get(match.type, "") for name, match in types.items() if parts[name].role == "service"}
    return {name: language for name, language in languages.items() if language}


def about_spans(entry: Mapping[str, Any] | None, offered: Mapping[str, str]) -> str:
    """Return a doubt about the spans, a sentence; empty where the application's own Jaeger has them."""
    if entry is None:
        agents = ", ".join(f"{name}: {language}" for name, language in offered.items())
        offer = f" Agents could make spans: tracing: {{add: jaeger, instrument: {{{agents}}}}}." if agents else ""
        return f"No service sends spans: latencies are the load generator's, and no critical path is known.{offer}"
    if "collector" in entry:
        return f"A study adds a Jaeger, to which {entry['collector']} exports spans too: check that it gets any."
    if "add" in entry:
        return "A study adds a Jaeger, and services with OTEL_ variables export their spans to it."
    return "" if "api" not in entry else f"Traces are read from {entry['service']} by the ids of requests."


def _exports(application: Application, service: str) -> bool:
    variables = application.environments.get(service, {})
    return any(name.startswith(("OTEL_EXPORTER_OTLP", "OTEL_TRACES_EXPORTER")) for name in variables)


def _further_formats(application: Application, parts: Mapping[str, Part]) -> list[str]:
    variables = [
        variable
        for name, part in parts.items()
        if part.role == "service"
        for variable in application.environments.get(name, {})
    ]
    return [text for prefix, text in _LIBRARIES if any(variable.startswith(prefix) for variable in variables)]
