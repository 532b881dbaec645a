"""Applications of one service, web, that defines its parameters itself, and their deployments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from framework.compose import render
from framework.compose.completed import completed
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.model import Application, Deployment
from optimizer.space import Configuration, SearchSpace, Value

TYPES = load_service_types()
CORES, MEMORY_MIB = 4, 4096
WORKLOAD = "kind: workload\nversion: 1\ntimeout_ms: 1000\nrequests: [{name: root, weight: 1, path: /}]\n"
APPLICATION = """\
kind: application
version: 1
name: own
services:
{services}
workload: {{file: workload.yaml, rate_rps: 5, target: "http://web:80"}}
"""
CONFIG = "# of the team\nserver:\n  http: {threads: 8}  # of the pool\n  timeout: 250ms\n"


def numbers(low: int, high: object, default: object, apply: str = "", more: str = "") -> str:
    applied = f", apply: {apply}" if apply else ""
    return f"{{kind: integer, low: {low}, high: {high}, default: {default}{more}{applied}}}"


THREADS = "parameters:\n  threads: " + numbers(
    1, 64, "host.cores", "{file: /etc/config.yaml, key: server.http.threads}"
)
MOUNTED = "services: {web: {image: 'web:1', volumes: ['./config.yaml:/etc/config.yaml:ro']}}\n"
TEMPLATED = "parameters:\n  size: " + numbers(1, 64, 10) + "\ntemplates: {/etc/web.conf: web.tmpl}"
TEMPLATE = "# $${HOME}\nsize ${web.size};\n"


def load(directory: Path, services: str, compose: str, files: Mapping[str, str] | None = None) -> Application:
    """Write an application and read it as the program does; ``services``, ``compose``: of the service web."""
    for name, text in {"workload.yaml": WORKLOAD, "config.yaml": CONFIG, **(files or {})}.items():
        (directory / name).write_text(text)
    lines = "\n".join(f"    {line}" for line in services.splitlines())
    (directory / "application.yaml").write_text(APPLICATION.format(services=f"  web:\n{lines}"))
    (directory / "compose.yaml").write_text(compose)
    return completed(load_application(directory), TYPES, None, None)


def space(application: Application) -> SearchSpace:
    return search_space(application, TYPES, cores=CORES, memory_mib=MEMORY_MIB)


def rendered(application: Application, **changed: Value) -> Deployment:
    types = resolved(TYPES, cores=CORES, memory_mib=MEMORY_MIB)
    values = {f"web.{name}": value for name, value in changed.items()}
    return render(application, types, Configuration({**space(application).default(), **values}), project="p", labels={})


def web(deployment: Deployment) -> Mapping[str, Any]:
    entry: Mapping[str, Any] = deployment.documents["local"]["services"]["web"]
    return entry
