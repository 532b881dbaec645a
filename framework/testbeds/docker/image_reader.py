"""Images of this machine's engine: what they do by themselves, and the text of their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from cachetools import TTLCache

from framework.errors import TailorError
from framework.model import ImageFacts
from framework.testbeds.docker.container_files import names_in, text_of
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.owner import Owner

KEPT_S = 5.0  # after so long, an image that was pulled or built anew is noticed
Read = TypeVar("Read")
OWNER = Owner.project("tailor-image-reader")


class DockerImages:
    """Reads images of the engine; implements ``framework.ports.images.ImageReader``."""

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine or Engine(attempts=1)
        self._facts: TTLCache[str, tuple[str, ImageFacts]] = TTLCache(256, KEPT_S)
        self._names: dict[tuple[str, str], Sequence[str]] = {}
        self._texts: dict[tuple[str, str], str | None] = {}  # of an image's id, which never changes
        self._silent: TTLCache[str, bool] = TTLCache(1, KEPT_S)

    def facts(self, image: str) -> ImageFacts | None:
        """Return the facts of an image; None where it is not here, or no engine answers."""
        known = self._known(image)
        return known[1] if known is not None else None

    def text(self, image: str, path: str) -> str | None:
        """Return the text of a file inside an image; None where there is no such text file."""
        known = self._known(image)
        if known is None:
            return None
        key = known[0], path
        if key not in self._texts:
            self._texts[key] = self._read(image, lambda container: text_of(self._engine, container, path))
        return self._texts[key]

    def names(self, image: str, directory: str) -> Sequence[str]:
        """Return the names of the files in a directory inside an image; none where there is no such directory."""
        known = self._known(image)
        if known is None:
            return ()
        key = known[0], directory
        if key not in self._names:
            self._names[key] = self._read(image, lambda container: names_in(self._engine, container, directory)) or ()
        return self._names[key]

    def _known(self, image: str) -> tuple[str, ImageFacts] | None:
        if "engine" in self._silent:
            return None
        if image not in self._facts:
            try:
                about = self._engine.image(image)
            except TailorError:
                self._silent["engine"] = True
                return None
            if about is None:  # not remembered: it may be built or pulled at any time
                return None
            self._facts[image] = (str(about["Id"]), _facts(about))
        return self._facts[image]

    def _read(self, image: str, read: Callable[[str], Read | None]) -> Read | None:
        """Read something of a container of the image, which is never started."""
        try:
            container = self._engine.create(image, ["none"], OWNER, {})
            try:
                return read(container)
            finally:
                self._engine.remove([container], OWNER)
        except TailorError:
            return None


def _facts(about: Mapping[str, Any]) -> ImageFacts:
    config = about.get("Config") or {}
    variables = (str(item).partition("=") for item in config.get("Env") or [])
    ports = (str(port).partition("/") for port in config.get("ExposedPorts") or {})
    return ImageFacts(
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        environment={name: text.replace("$", "$$") for name, _, text in variables},
        ports=tuple(sorted(int(number) for number, _, kind in ports if number.isdigit() and kind in ("", "tcp"))),
    )
