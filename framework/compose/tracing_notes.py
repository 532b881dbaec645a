"""How the spans of a study come about, in sentences: what Tailor adds, what it costs, what may not work."""

from __future__ import annotations

from collections.abc import Iterator

from framework.model import Application
from framework.model.application import Tracing
from framework.model.measurement import MOST_TRACES

_FORMATS = {"tracecontext": "w3c", "b3": "b3", "b3multi": "b3-multi", "jaeger": "jaeger"}
"""Names of OTEL_PROPAGATORS -> those of ``tracing.propagation``."""

_CLIENTS = (
    ("JAEGER_", "jaeger", "uber-trace-id"),
    ("ZIPKIN_", "b3-multi", "X-B3-TraceId"),
    ("SPRING_ZIPKIN_", "b3-multi", "X-B3-TraceId"),
)
"""Prefix of variables of older tracing libraries, the format that they read by default, and its header."""


def tracing_notes(application: Application) -> tuple[str, ...]:
    """Return what a user should know of an application's tracing before a study."""
    tracing = application.tracing
    if tracing is None:
        return (
            "there is no tracing: latencies are the load generator's, the critical path is not known, and reductions "
            "and profiles that need it are refused",
        )
    return (*_additions(application, tracing), *_unread(application, tracing))


def agents_note(tracing: Tracing | None) -> str:
    """Return that agents make spans, and what that costs; empty where none do."""
    if tracing is None or not tracing.instrument:
        return ""
    agents = ", ".join(f"{name} ({language})" for name, language in tracing.instrument.items())
    return (
        f"OpenTelemetry agents make the spans of {agents}, and cost time there: the default and every other "
        "configuration have them alike, and what is deployed in the end has none"
    )


def _additions(application: Application, tracing: Tracing) -> Iterator[str]:
    if tracing.collector:
        yield f"{tracing.collector} exports spans to {tracing.service} too, in a copy of its configuration"
    elif tracing.added:
        endpoint = f"http://{tracing.service}:"
        exporting = [
            name
            for name, variables in application.environments.items()
            if any(text.startswith(endpoint) for text in variables.values())
        ]
        yield f"{', '.join(exporting)} export spans to {tracing.service}, which a study adds"
    if tracing.instrument:
        yield agents_note(tracing)
    if tracing.joins:
        yield (
            f"{tracing.service} is read by the ids of at most {MOST_TRACES:,} requests of a window; latencies are the "
            "load generator's, of all requests"
        )


def _unread(application: Application, tracing: Tracing) -> Iterator[str]:
    """Yield services whose libraries seem to read other formats of a trace's context than those that are sent."""
    sent = tracing.propagation or ("w3c",)
    for name in application.compose["services"]:
        variables = application.environments.get(name, {})
        named = [text.strip() for text in variables.get("OTEL_PROPAGATORS", "").split(",") if text.strip() in _FORMATS]
        formats = [_FORMATS[text] for text in named]
        if formats and not set(formats) & set(sent):
            yield _advice(name, f"OTEL_PROPAGATORS={','.join(named)}", formats[0], sent)
            continue
        for prefix, format_name, header in _CLIENTS:
            if format_name not in sent and any(variable.startswith(prefix) for variable in variables):
                yield _advice(name, f"{prefix} variables, whose libraries read {header}", format_name, sent)
                break


def _advice(service: str, why: str, wanted: str, sent: tuple[str, ...]) -> str:
    return (
        f"{service} has {why}, and requests carry {', '.join(sent)}: if its spans do not join, write "
        f"tracing.propagation: [{', '.join((*sent, wanted))}]"
    )
