"""The reader of container images of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from framework.model import ImageFacts


class ImageReader(Protocol):
    """Says what images do by themselves; nothing is pulled or started."""

    def facts(self, image: str) -> ImageFacts | None:
        """Return the facts of an image, without files; None where it is not here, or no engine answers."""

    def names(self, image: str, directory: str) -> Sequence[str]:
        """Return the names of the files in a directory inside an image; none where it is not known."""

    def text(self, image: str, path: str) -> str | None:
        """Return the text of a file inside an image; None where there is no such text file."""
