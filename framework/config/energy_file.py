"""The file of a measurement of energy, ``kind: energy-measurement``, version 1: JSON, one window per line."""

from __future__ import annotations

import json
import math
from pathlib import Path

from framework.config.reading import RECORD_BYTES, read_text
from framework.config.writing import write_rows
from framework.errors import FileError
from framework.model.documents import conform, decode, encode
from framework.model.energy_measurement import EnergyMeasurement

KIND, VERSION = "energy-measurement", 1
LONGEST = 300  # characters of a reason


def load_energy(path: Path) -> EnergyMeasurement:
    """Read a measurement.  Raises FileError."""
    text = read_text(path, RECORD_BYTES)
    try:
        data = json.loads(text)
        header = (data.get("kind"), data.get("version")) if isinstance(data, dict) else "no keys"
        if header != (KIND, VERSION):
            raise FileError(path, "kind, version", header, f"{KIND!r}, {VERSION}")
        measurement = decode(EnergyMeasurement, {name: data[name] for name in data if name not in ("kind", "version")})
        conform(EnergyMeasurement, measurement)
        _check(measurement)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {f'{error}'[:LONGEST]}"
        raise FileError(path, "", why, "a file that `tailor energy` wrote") from error
    return measurement


def write_energy(measurement: EnergyMeasurement, path: Path) -> Path:
    """Write a measurement; the file is whole at any time.  Raises InputError where it cannot be written."""
    return write_rows(path, {"kind": KIND, "version": VERSION, **encode(measurement)}, "windows")


def _check(measurement: EnergyMeasurement) -> None:
    """Raise ValueError where a number cannot be what it says."""
    for window in measurement.windows:
        joules = [] if window.whole is None else [window.whole.value]
        for number in (window.seconds, window.cpu.total, *joules):
            if not (math.isfinite(number) and number >= 0):
                raise ValueError(f"a window with {number:g} seconds or joules")
        if window.seconds <= 0 or window.cpus < 1:
            raise ValueError("a window without time or CPUs")
