"""Images that an application names: checks that they are on this machine, and pulls those that are not."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framework.errors import DeploymentFailed, MissingPrerequisite
from framework.model import Application
from framework.testbeds.docker.builds import Build, build_missing, is_built
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.document import Wanted
from framework.testbeds.docker.engine import Engine

logger = logging.getLogger(__name__)
OWN = "tailor/"  # built here only: never pulled, since anyone could offer this name in a registry


@dataclass(frozen=True, slots=True)
class Source:
    """Origin of an image.  ``service``: one that runs it.  ``remedy``: how to get it.  ``built``: from sources."""

    service: str
    remedy: str
    built: bool = False


def sources_of(application: Application, document: Mapping[str, Any]) -> dict[str, Source]:
    """Return image -> its origin, of the services of an application's document."""
    services = {name: str(body.get("image") or "") for name, body in document["services"].items()}
    ours = any(image.startswith(OWN) for image in services.values())
    sources: dict[str, Source] = {}
    for service, image in services.items():
        built = is_built(image)
        remedy = "a study builds it first" if built else remedy_of(image, ours=ours)
        if image:
            sources.setdefault(image, Source(service, remedy, built))
    return sources


def remedy_of(image: str, *, ours: bool) -> str:
    """Return how to get an image.  ``ours``: of an application of Tailor's, whose servers have stand-ins."""
    return "make images" if ours or image.startswith(OWN) else f"docker pull {image}, which a study tries too"


def check_images(engine: Engine, application: Application, document: Mapping[str, Any]) -> None:
    """Build the images of ``document`` that are missing and have sources, and pull the others.

    Raises MissingPrerequisite, naming every image that is not here and cannot be pulled.
    """
    users: dict[str, str] = {}
    for service, body in document["services"].items():
        image = str(body.get("image") or "")
        if not image:
            raise MissingPrerequisite(
                f"service {service} names no image", f"build one and name it in {application.directory}"
            )
        users.setdefault(image, service)
    missing = [image for image in users if engine.image(image) is None]
    built = {
        users[image]: (image, Build.of(application, users[image]))
        for image in missing
        if application.compose["services"][users[image]].get("build")
        and (is_built(image) or image.startswith(OWN) or engine.pull(image))
    }
    build_missing(built, application.roots, logger.info)
    missing = [image for image in missing if engine.image(image) is None]  # neither built nor pulled above
    problems = in_parallel(lambda image: "built here" if image.startswith(OWN) else engine.pull(image), missing)
    absent = [f"{image} (service {users[image]})" for image, problem in zip(missing, problems, strict=True) if problem]
    if absent:
        what = f"image {absent[0]} is" if len(absent) == 1 else f"images {', '.join(absent)} are"
        reasons = "; ".join(dict.fromkeys(problem for problem in problems if problem and problem != "built here"))
        raise MissingPrerequisite(
            f"{what} not on this machine" + (f" and cannot be pulled: {reasons}" if reasons else ""),
            "run `make images`, which builds the application's images and stand-ins for servers that cannot be pulled"
            if any(image.startswith(OWN) for image in users)
            else "build or pull them (docker pull NAME), log in to their registry (docker login), or mend the names",
        )


def image_ids(engine: Engine, want: Wanted) -> dict[str, str]:
    """Return service -> id of its image.  Raises DeploymentFailed where a service that runs has no image here."""
    names = list(dict.fromkeys(want.images.values()))
    images = dict(zip(names, in_parallel(engine.image, names), strict=True))
    for service in want.services:
        name = want.images[service]
        if images[name] is None:
            ours = any(other.startswith(OWN) for other in names)
            how = remedy_of(name, ours=ours) if name else "name one"
            raise DeploymentFailed(f"image {name or '(none named)'} is not on this machine; {how}", service)
    ids: Mapping[str, str | None] = {service: (images[name] or {}).get("Id") for service, name in want.images.items()}
    return {service: image for service, image in ids.items() if image}
