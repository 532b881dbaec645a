"""The one gate that every compose document passes on its way to an engine: the check, and what the operator allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.compose.interpolation import Variables
from framework.compose.safety import Admitted, admit
from framework.errors import InputError
from framework.model import Application, Deployment


@dataclass(frozen=True, slots=True)
class Gate:
    """``allowed`` (TAILOR_ALLOW): entries "application:place".  ``variables`` (TAILOR_VARIABLES): names of those of
    this process that compose files may see.
    """

    allowed: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    def admitted(self, application: Application) -> Admitted:
        """What of an application's compose file may run, and what not."""
        return self._admit(application.compose, application.name, application.directory, (application.directory,), None)

    def application(self, application: Application) -> Admitted:
        """The same.  Raises InputError where something was refused."""
        return _passed(application.name, self.admitted(application))

    def deployment(self, deployment: Deployment, document: Mapping[str, Any], own: Path) -> Admitted:
        """What of a rendered document may run; ``own``: the directory that it is written to.  Raises InputError."""
        roots = (deployment.directory,) if deployment.directory is not None else ()
        return _passed(deployment.application, self._admit(document, deployment.application, own, roots, own))

    def _admit(
        self, document: Mapping[str, Any], name: str, base: Path, roots: tuple[Path, ...], own: Path | None
    ) -> Admitted:
        return admit(
            document, application=name, base=base, roots=roots, own=own, allowed=self.allowed,
            variables=Variables.here(self.variables),
        )  # fmt: skip


CLOSED = Gate()
"""Nothing is allowed beyond the list, and no variable is passed on."""


def _passed(name: str, admitted: Admitted) -> Admitted:
    if admitted.refused:
        listed = "; ".join(map(str, admitted.refused))
        raise InputError(f"the compose file of {name} asks for more than a study runs: {listed}")
    return admitted
