"""Whether the images that an application names are on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from framework.errors import DeploymentFailed, MissingPrerequisite
from framework.model import Application
from framework.testbeds.document import Wanted
from framework.testbeds.engine import Engine, in_parallel

OWN = "tailor/"  # built here and nowhere else: never asked of a registry, where anyone could offer this name

_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::?-(?P<default>[^}]*))?\}|\$(?P<bare>\w+)")


def check_images(engine: Engine, application: Application) -> None:
    """Pull what is missing.  Raises MissingPrerequisite naming every image that is not here and cannot be pulled."""
    users: dict[str, str] = {}
    for service, body in (application.compose.get("services") or {}).items():
        image = resolved(str((body or {}).get("image") or ""))
        if not image:
            raise MissingPrerequisite(
                f"service {service} names no image", f"build one and name it in {application.directory}"
            )
        users.setdefault(image, service)
    missing = [image for image in users if engine.image(image) is None]
    problems = in_parallel(lambda image: "built here" if image.startswith(OWN) else engine.pull(image), missing)
    absent = [f"{image} (service {users[image]})" for image, problem in zip(missing, problems, strict=True) if problem]
    if absent:
        what = f"image {absent[0]} is" if len(absent) == 1 else f"images {', '.join(absent)} are"
        reasons = "; ".join(dict.fromkeys(problem for problem in problems if problem and problem != "built here"))
        raise MissingPrerequisite(
            f"{what} not on this machine" + (f" and cannot be pulled: {reasons}" if reasons else ""),
            "run `make images`, which builds the application's images and stand-ins for servers that cannot be pulled",
        )


def image_ids(engine: Engine, want: Wanted) -> dict[str, str]:
    """Service -> id of its image.  Raises DeploymentFailed for a service that runs when its image is not here."""
    names = dict.fromkeys(resolved(image) for image in want.images.values())
    found = dict(zip(names, in_parallel(engine.image, names), strict=True))
    for service in want.services:
        name = resolved(want.images[service])
        if found[name] is None:
            raise DeploymentFailed(f"image {name or '(none named)'} is not on this machine; run `make images`", service)
    ids: Mapping[str, str | None] = {s: (found[resolved(name)] or {}).get("Id") for s, name in want.images.items()}
    return {service: image for service, image in ids.items() if image}


def resolved(image: str) -> str:
    """An image name with ``${NAME:-default}`` filled in as compose does."""
    return _VARIABLE.sub(lambda m: os.environ.get(m["name"] or m["bare"]) or m["default"] or "", image)
