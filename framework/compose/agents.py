"""OpenTelemetry agents that make the spans of services which make none: how one is mounted and loaded.

An agent changes the latency of the service that it is loaded into.  The default and every other configuration have it
alike, so that comparisons hold; absolute numbers are those of the instrumented application.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from framework.config.added_tracing import exports_to, with_variables
from framework.model import Application
from framework.model.application import Agent, Tracing

TARGET = "/tailor-agent"
"""Directory of the agent in the container."""

_NODE = f"{TARGET}/node_modules/@opentelemetry/auto-instrumentations-node/build/src/register.js"

WRAPPER = "tailor"
"""Directory of a Python agent's ``sitecustomize``, which is all that goes before the application's own packages."""


@dataclass(frozen=True, slots=True)
class Loading:
    """How a language's agent is loaded: ``variable`` with the value made of the one that it has today.

    ``further``: variables of this agent alone.
    """

    variable: str
    value: Callable[[str], str]
    further: Mapping[str, str] = field(default_factory=dict)


def _appended(item: str) -> Callable[[str], str]:
    return lambda today: f"{today} {item}" if today.strip() else item


LOADING: Mapping[Agent, Loading] = {
    # https://opentelemetry.io/docs/zero-code/java/agent/ : every JVM of the container reads the variable
    "java": Loading("JAVA_TOOL_OPTIONS", _appended(f"-javaagent:{TARGET}/opentelemetry-javaagent.jar")),
    # By default it asks the metadata services of clouds, too.
    "node": Loading("NODE_OPTIONS", _appended(f"--require {_NODE}"), {"OTEL_NODE_RESOURCE_DETECTORS": "env,host"}),
    # Python imports sitecustomize from the first directory of its path that has one.
    "python": Loading("PYTHONPATH", lambda today: f"{TARGET}/{WRAPPER}" + (f":{today}" if today else "")),
}

OWN: Mapping[str, str] = {
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
    "OTEL_TRACES_SAMPLER": "parentbased_always_on",
}
"""Variables of an agent that Tailor loads: spans of every request, and nothing else."""


def instrumented(application: Application, agents: Path) -> Application:
    """Return the application with the variables of its agents, and their directories below ``agents``.

    Images have to be known: a variable that an image sets is kept, with the agent behind it.
    """
    tracing = application.tracing
    if tracing is None or not tracing.instrument:
        return application
    services: dict[str, Any] = dict(application.compose["services"])
    environments = dict(application.environments)
    for name, language in tracing.instrument.items():
        added = _variables(tracing, name, language, application.environment_of(name))
        services[name] = with_variables(services[name], added)
        environments[name] = {**environments.get(name, {}), **added}
    return replace(
        application,
        compose={**application.compose, "services": services},
        environments=environments,
        agents={name: agents / directory_name(language) for name, language in tracing.instrument.items()},
    )


VERSIONS: Mapping[Agent, str] = {"java": "2.20.1", "node": "0.67.3", "python": "0.59b0"}
"""Version of each agent: io.opentelemetry.javaagent:opentelemetry-javaagent of Maven Central,
@opentelemetry/auto-instrumentations-node of npm, opentelemetry-distro of PyPI."""


def directory_name(language: Agent) -> str:
    """Return the name of an agent's directory: another version is another directory."""
    return f"{language}-{VERSIONS[language]}"


def mount_of(directory: Path) -> dict[str, Any]:
    """Return the entry of ``volumes`` that shows an agent's directory to a service."""
    source = str(directory).replace("$", "$$")
    return {"type": "bind", "source": source, "target": TARGET, "read_only": True}


def _variables(tracing: Tracing, service: str, language: Agent, today: Mapping[str, str]) -> dict[str, str]:
    loading = LOADING[language]
    settings = {**OWN, **loading.further}
    own = {name: text for name, text in settings.items() if name not in today or name == "OTEL_TRACES_EXPORTER"}
    return {
        "OTEL_SERVICE_NAME": today.get("OTEL_SERVICE_NAME", service),
        **own,
        **exports_to(tracing, today),
        loading.variable: loading.value(today.get(loading.variable, "")),
    }
