"""The load generators of applications, as this testbed has them: their images, and what their numbers leave out."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence

from framework.errors import MissingPrerequisite
from framework.model import EXTERNAL_GENERATORS, LOOPS_IN_WORDS, Application, Finding
from framework.testbeds.docker.engine import Engine

GENERATOR = "tailor/loadgen:5"


def check_generator(engine: Engine, application: Application) -> None:
    """Raise MissingPrerequisite where the image of the application's load generator is not here."""
    image = generator_image(application)
    if image and engine.image(image) is None:
        remedy = "run `make images`" if image == GENERATOR else f"docker pull {image}, or build it"
        raise MissingPrerequisite(f"image {image} is not on this machine", remedy)


def loop_notes(application: Application) -> Iterator[str]:
    """Yield a sentence on a generator whose requests wait for replies."""
    if application.loop != "open":
        yield f"{application.generator}: {LOOPS_IN_WORDS[application.loop]}"


def generator_images(applications: Sequence[Application]) -> set[str]:
    """Return the images of the applications' load generators; Tailor's own where there are no applications."""
    return {image for application in applications if (image := generator_image(application))} or {GENERATOR}


def generator_image(application: Application) -> str:
    """Return the image of the application's load generator; empty where it is a command of this machine."""
    return application.external.image if application.generator in EXTERNAL_GENERATORS else GENERATOR


def external_loads(applications: Sequence[Application], allowed: Collection[str]) -> Iterator[Finding]:
    """Yield how load generators of somebody else are run, and what their numbers leave out.

    ``allowed``: entries "application:load" of the operator, for commands of this machine.
    """
    for application in applications:
        name = application.generator
        if name not in EXTERNAL_GENERATORS:
            continue
        what = f"{application.name}: load by {name}"
        words = LOOPS_IN_WORDS.get(application.loop, "open loop")
        is_open = application.loop == "open"
        yield Finding(what, "ok" if is_open else "limited", words, "" if is_open else "k6, vegeta and wrk2 keep a rate")
        if not application.external.image:
            place = f"{application.name}:load"
            if place not in allowed:
                refused = "refused: without an image it would run as a command of this machine"
                yield Finding(what, "missing", refused, f"load.image, or TAILOR_ALLOW={place}", needed=True)
            program = (application.external.command or EXTERNAL_GENERATORS[name].command)[0]
            if shutil.which(program) is None:
                remedy = "install it, or name an image in load: of application.yaml"
                yield Finding(what, "missing", f"{program} is not in PATH", remedy, needed=True)
