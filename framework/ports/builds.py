"""Images that are built from an application's own sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from framework.model import Application

BUILT = "tailor-built/"
"""Beginning of the names of images that Tailor builds because the compose file names none."""


class Builds(Protocol):
    """Names the images of services that are built, for which no engine is needed, and removes those that were."""

    def image_name(self, application: Application, service: str) -> str:
        """Return the name of a service's image, whose tag is a hash of all that it is built from.

        Tailor's own files are not part of it.  Raises InputError, FileError.
        """

    def kept(self) -> Sequence[str]:
        """Return the names of the images that were built here, by their label.  Raises TestbedUnavailable."""

    def remove(self) -> Sequence[str]:
        """Remove them but for those that a container uses; return the names of what was removed."""
