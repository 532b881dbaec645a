"""Applications as other people have them (tests/cases/own), loaded as the program loads them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from framework.compose import render
from framework.compose.completed import completed
from framework.compose.gate import Gate
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.errors import MissingPrerequisite
from framework.model import Application, Deployment, ImageFacts, ServiceType
from framework.ports.images import ImageReader
from framework.testbeds.docker.builds import DockerBuilds
from framework.testbeds.docker.compose_command import ComposeCommand
from framework.testbeds.docker.compose_config import ComposeConfig
from optimizer.space import Configuration, SearchSpace, Value

OWN = Path(__file__).parent / "cases" / "own"
CASES = sorted(path.parent.name for path in OWN.glob("*/application.yaml"))
CORES, MEMORY_MIB = 4, 16_384


NGINX_CONF = """\
user  nginx;
worker_processes  auto;
events {
    worker_connections  1024;
}
http {
    include /etc/nginx/conf.d/*.conf;
}
"""


class Images:
    """Images of a machine that has nginx only; implements ``framework.ports.images.ImageReader``."""

    def facts(self, image: str) -> ImageFacts | None:
        return ImageFacts(("/docker-entrypoint.sh",), ("nginx", "-g", "daemon off;")) if "nginx" in image else None

    def names(self, image: str, directory: str) -> Sequence[str]:
        return ()

    def text(self, image: str, path: str) -> str | None:
        return NGINX_CONF if path == "/etc/nginx/nginx.conf" else None


@cache
def compose_v2() -> bool:
    """Return whether the second generation of compose is here."""
    try:
        return not ComposeCommand.find().old
    except MissingPrerequisite:
        return False


needs_compose = pytest.mark.skipif(not compose_v2(), reason="needs docker compose v2 (`make compose`)")


def types_of(case: str) -> dict[str, ServiceType]:
    """Return the knowledge base, with the case's own service types."""
    own = OWN / case / "types"
    return load_service_types([own] if own.is_dir() else [])


def application_of(case: str, images: ImageReader | None = None) -> Application:
    """Return a case as the program reads it."""
    return completed(load_application(OWN / case, ComposeConfig()), types_of(case), DockerBuilds(), images or Images())


def space_of(case: str, application: Application | None = None) -> SearchSpace:
    """Return the search space of a case on a machine of four cores."""
    return search_space(application or application_of(case), types_of(case), cores=CORES, memory_mib=MEMORY_MIB)


def rendered(
    case: str, changed: Mapping[str, Value] | None = None, application: Application | None = None
) -> Deployment:
    """Render a case, at the default but for ``changed``."""
    application = application or application_of(case)
    types = resolved(types_of(case), cores=CORES, memory_mib=MEMORY_MIB)
    configuration = Configuration({**space_of(case, application).default(), **(changed or {})})
    return render(application, types, configuration, project="p", labels={})


def service_of(deployment: Deployment, name: str) -> dict[str, Any]:
    """Return a service of a deployment's only document."""
    (document,) = deployment.documents.values()
    service: dict[str, Any] = document["services"][name]
    return service


def admitted(deployment: Deployment, own: Path, *allowed: str) -> dict[str, Any]:
    """Return the document that would run."""
    (document,) = deployment.documents.values()
    return dict(Gate(allowed=allowed).deployment(deployment, document, own).document)


def configured(directory: Path, *options: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what compose itself makes of the files in a directory."""
    ended = subprocess.run(
        ["docker", "compose", *options, "config", "--format", "json"],
        cwd=directory, capture_output=True, text=True, check=True, env=env,
    )  # fmt: skip
    document: dict[str, Any] = json.loads(ended.stdout)
    return document
