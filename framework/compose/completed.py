"""An application completed by what its sources and images say: names of built images, image facts, present values."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from framework.compose.agents import instrumented
from framework.compose.baseline import present_values, without_place
from framework.compose.files import mounted, with_absolute_paths
from framework.compose.fitted import wanted_directories, wanted_paths
from framework.compose.placeholders import check_templates
from framework.compose.service_files import configs_of
from framework.config.space import definitions_of
from framework.errors import FileError, InputError
from framework.model import Application, ImageFacts, Service, ServiceType
from framework.ports.builds import Builds
from framework.ports.images import ImageReader

AGENTS = Path("agents")
"""Directory of agents, below TAILOR_HOME."""


def completed(
    application: Application,
    types: Mapping[str, ServiceType],
    builds: Builds | None,
    images: ImageReader | None,
    agents: Path = AGENTS,
) -> Application:
    """Return the application with images, what they do by themselves, and the values that parameters have today.

    ``builds``, ``images``: None where they cannot be asked.  ``agents``: the directory of agents that make spans.
    Raises UnknownName, InputError, FileError.
    """
    check_templates(application, types)
    named = with_built_images(application, builds)
    known = replace(named, images=_facts(named, types, images)) if images is not None else named
    known = instrumented(known, agents)
    placed = replace(known, unsettable=without_place(known, types))
    return replace(placed, present=present_values(placed, types))


def with_built_images(application: Application, builds: Builds | None) -> Application:
    """Name the images of services that are built and have no image of their own, by their content."""
    services = application.compose["services"]
    built = {name: service for name, service in services.items() if not service.get("image")}
    if builds is None or not built:
        return application
    named = {name: {**service, "image": builds.image_name(application, name)} for name, service in built.items()}
    return replace(application, compose={**application.compose, "services": {**services, **named}})


def _facts(application: Application, types: Mapping[str, ServiceType], images: ImageReader) -> dict[str, ImageFacts]:
    """Return service -> what its image does by itself, of the services with a type whose images are here."""
    facts: dict[str, ImageFacts] = {}
    tracing = application.tracing
    asked = {tracing.collector, *tracing.instrument} if tracing is not None else set()
    for service in application.services:
        image = str(application.compose["services"][service.name].get("image") or "")
        if not image or not (service.type in types or service.parameters or service.name in asked) or "$" in image:
            continue
        answer = images.facts(image)
        if answer is not None:
            tunable = service.type in types or service.parameters
            paths = _edited_paths(application, types, service, images) if tunable else []
            files = {path: text for path in paths if (text := images.text(image, path)) is not None}
            directories = wanted_directories(definitions_of(application, types, service)) if tunable else ()
            there = frozenset(directory for directory in set(directories) if images.names(image, directory))
            facts[service.name] = replace(answer, files=files, directories=there)
    return facts


def facts_of(application: Application, images: ImageReader) -> dict[str, ImageFacts]:
    """Return service -> what its image does by itself, of all services whose images are here; without files."""
    names = {name: str(entry.get("image") or "") for name, entry in application.compose["services"].items()}
    answer = {name: images.facts(image) for name, image in names.items() if image and "$" not in image}
    return {name: facts for name, facts in answer.items() if facts is not None}


def _edited_paths(
    application: Application, types: Mapping[str, ServiceType], service: Service, images: ImageReader
) -> list[str]:
    """Return the paths of files that a service's parameters stand in and that the compose file does not give it."""
    entry = with_absolute_paths(application.compose["services"][service.name], application.base)
    volumes = list(entry.get("volumes") or [])
    paths = set()
    for pattern in wanted_paths(definitions_of(application, types, service)):
        if "*" in pattern:
            directory = posixpath.dirname(pattern)
            inside = (posixpath.join(directory, name) for name in images.names(str(entry.get("image")), directory))
            paths |= {path for path in inside if fnmatch.fnmatchcase(path, pattern)}
        else:
            paths.add(pattern)
    missing = []
    for path in sorted(paths - configs_of(application, service.name).keys() - service.templates.keys()):
        try:
            mounted(service.name, volumes, path)
        except FileError:
            pass  # it is mounted, and cannot be read: rendering says so
        except InputError:
            missing.append(path)
    return missing
