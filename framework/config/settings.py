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

    ``spaces`` (TAILOR_SEARCH_SPACES, none): more directories of service types, separated as in PATH.  ``database``
    (TAILOR_DATABASE, a SQLite file below ``home``): SQLAlchemy URL of the store.  ``applications``
    (TAILOR_APPLICATIONS, ./apps): directories whose applications the service may tune, separated as in PATH.
    ``allowed`` (TAILOR_ALLOW, none): "application:place", separated by commas, of what a compose file may ask for
    though it leads out of its containers.
    """

    home: Path
    spaces: tuple[Path, ...] = ()
    database: str = ""
    applications: tuple[Path, ...] = ()
    allowed: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Raises InputError when the home directory is not known or a directory of search spaces does not exist."""
        given = os.environ if environment is None else environment
        try:
            home = Path(given.get("TAILOR_HOME") or "~/.tailor").expanduser().absolute()
        except RuntimeError:
            raise InputError("TAILOR_HOME: not set, and there is no home directory; set it to a directory") from None
        spaces, applications = (
            _directories(name, given.get(name, "")) for name in ("TAILOR_SEARCH_SPACES", "TAILOR_APPLICATIONS")
        )
        database = given.get("TAILOR_DATABASE") or f"sqlite:///{home / 'tailor.db'}"
        allowed = tuple(part.strip() for part in given.get("TAILOR_ALLOW", "").split(",") if part.strip())
        return cls(home, spaces, database, applications or (Path("apps").absolute(),), allowed)


def _directories(name: str, text: str) -> tuple[Path, ...]:
    found = tuple(Path(part).expanduser().absolute() for part in text.split(os.pathsep) if part)
    for directory in found:
        if not directory.is_dir():
            raise InputError(f"{name}: found {str(directory)!r}; allowed: existing directories")
    return found
