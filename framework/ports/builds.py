"""Images that are built from an application's own sources."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class Builds(Protocol):
    """Names the images of services that are built.  No engine is needed."""

    def image_name(self, application: str, service: str, build: str | Mapping[str, Any], base: Path) -> str:
        """Return the image's name, whose tag is a hash of all that it is built from.

        ``build``: as in the compose file; ``base``: where its relative paths start.  Raises InputError, FileError.
        """
