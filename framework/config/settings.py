"""Settings of the installation, from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from framework.errors import InputError


@dataclass(frozen=True, slots=True)
class Settings:
    """``home`` (TAILOR_HOME, ~/.tailor): database, artefacts, deployments.

    ``spaces`` (TAILOR_SEARCH_SPACES, none): more directories of service types, separated as in PATH.
    """

    home: Path
    spaces: tuple[Path, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Raises InputError when the home directory is not known or a directory of search spaces does not exist."""
        given = os.environ if environment is None else environment
        try:
            home = Path(given.get("TAILOR_HOME") or "~/.tailor").expanduser().absolute()
        except RuntimeError:
            raise InputError("TAILOR_HOME: not set, and there is no home directory; set it to a directory") from None
        parts = [part for part in given.get("TAILOR_SEARCH_SPACES", "").split(os.pathsep) if part]
        spaces = tuple(Path(part).expanduser().absolute() for part in parts)
        for directory in spaces:
            if not directory.is_dir():
                raise InputError(f"TAILOR_SEARCH_SPACES: found {str(directory)!r}; allowed: existing directories")
        return cls(home, spaces)
