"""Measurements of energy that a TAILOR_HOME keeps, a file for each application."""

from __future__ import annotations

import re
from pathlib import Path

from framework.config.energy_file import load_energy
from framework.errors import FileError, NotFound
from framework.model.energy_measurement import EnergyMeasurement

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


class EnergyRecords:
    """Measurements by the name of their application."""

    def __init__(self, home: Path) -> None:
        self._root = home / "energy"

    def path(self, application: str) -> Path:
        """Return the path where an application's measurement is kept by default."""
        return self._root / f"{application}.json"

    def names(self) -> list[str]:
        """Return the names of the applications that were measured."""
        return sorted(file.stem for file in self._root.glob("*.json") if _NAME.fullmatch(file.stem))

    def check(self, application: str) -> None:
        """Raise NotFound where there is no measurement of this application."""
        if application not in self.names():
            raise NotFound(f"no measurement of the energy of {application!r}")

    def read(self, application: str) -> EnergyMeasurement:
        """Return a measurement.  Raises NotFound, also for one that cannot be read."""
        self.check(application)
        try:
            return load_energy(self.path(application))
        except FileError as error:
            raise NotFound(f"the measurement of {application} cannot be read: {error}") from error
