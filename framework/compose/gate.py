"""The gate that every compose document passes on its way to an engine: the check with the operator's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from framework.compose.data_sources import refused_sources
from framework.compose.interpolation import Variables
from framework.compose.safety import Admitted, admit
from framework.errors import InputError
from framework.model import Application, Deployment


@dataclass(frozen=True, slots=True)
class Gate:
    """The operator's settings.  ``allowed`` (TAILOR_ALLOW): entries "application:place".

    ``variables`` (TAILOR_VARIABLES): names of this process's environment variables that compose files may see.
    """

    allowed: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    def admitted(self, application: Application) -> Admitted:
        """Check an application's compose file and its data; the result says what may run and what was refused."""
        admitted = self._admit(application.compose, application.name, application.base, application.roots, None)
        return replace(admitted, refused=(*admitted.refused, *refused_sources(application, self.allowed)))

    def application(self, application: Application) -> Admitted:
        """Check an application's compose file and its data.  Raises InputError where something was refused."""
        return _passed(application.name, self.admitted(application))

    def deployment(self, deployment: Deployment, document: Mapping[str, Any], own: Path) -> Admitted:
        """Check a rendered document; ``own``: the directory that it is written to.  Raises InputError."""
        return _passed(
            deployment.application, self._admit(document, deployment.application, own, deployment.roots, own)
        )

    def _admit(
        self, document: Mapping[str, Any], name: str, base: Path, roots: tuple[Path, ...], own: Path | None
    ) -> Admitted:
        return admit(
            document, application=name, base=base, roots=roots, own=own, allowed=self.allowed,
            variables=Variables.here(self.variables),
        )  # fmt: skip


CLOSED = Gate()
"""The gate without exceptions to the allow-list and without variables."""


def _passed(name: str, admitted: Admitted) -> Admitted:
    if admitted.refused:
        listed = "; ".join(map(str, admitted.refused))
        raise InputError(f"the compose file of {name} asks for more than a study runs: {listed}")
    return admitted
