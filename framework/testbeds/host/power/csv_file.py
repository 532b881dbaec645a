"""Live readings of a smart plug or a rack that another program appends to a CSV file: when, and how many watts."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from framework.config.reading import open_regular
from framework.energy.zones import MACHINE
from framework.errors import FieldError, FileError, KnobRefused
from framework.model.energy import MOST_WATTS, CpuTimes, Joules, Label
from framework.testbeds.host.power.counted import CountedSource, WattsOverTime
from framework.testbeds.host.power.registry import SOURCES, Surroundings

STALE_S = 10.0
"""Age after which a reading says nothing about now.  Plugs write one every second, or every few seconds."""
TAIL_BYTES = 64 * 1024  # of the file's end that are looked at: hundreds of readings
MOST_BYTES = 64 * 2**30
TIME = "seconds since 1970, or ISO 8601 (without an offset: local time)"


class CsvFileSource(CountedSource):
    """The last reading of a growing file; implements ``framework.ports.energy.PowerSource``.

    The first column is the time, the second the watts; other columns and lines that are no reading are passed over, a
    line without its end is not read yet.  Power is taken as going in a straight line between two looks at the file.
    """

    name = "csv"
    label: Label = "measured"
    lag_s = STALE_S

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        super().__init__()
        self._path, self._now = path, now
        self._over_time = WattsOverTime()

    def missing(self) -> str:
        try:
            self._watts()
        except KnobRefused as error:
            return f"{error.knob}: {error.reason}"
        return ""

    def about(self) -> str:
        return f"readings of watts that something appends to {self._path.name}, at most {STALE_S:g} s old"

    def look(self, at_s: float, seconds: float | None, cpu: CpuTimes) -> dict[str, Joules]:
        return self._over_time.joules(seconds, {MACHINE: self._watts()})

    def _watts(self) -> float:
        """Return the watts of the last reading.  Raises KnobRefused where there is none, or an old one."""
        last = self._last_reading()
        if last is None:
            raise KnobRefused(str(self._path), f"it has no line with a time ({TIME}) and watts")
        taken_s, watts = last
        age_s = self._now() - taken_s
        if abs(age_s) > STALE_S:
            when = f"{age_s:.0f} s old" if age_s > 0 else f"{-age_s:.0f} s ahead of this machine's clock"
            raise KnobRefused(str(self._path), f"the last reading is {when}; at most {STALE_S:g} s")
        return watts

    def _last_reading(self) -> tuple[float, float] | None:
        """Return (when, watts) of the last line that is a reading.  Raises KnobRefused."""
        try:
            with open_regular(self._path, MOST_BYTES) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                tail = file.read(2 * TAIL_BYTES)
        except FileError as error:
            raise KnobRefused(str(self._path), str(error.found)) from error
        except OSError as error:
            raise KnobRefused(str(self._path), error.strerror or str(error)) from error
        whole_lines = tail[: tail.rfind(b"\n") + 1]
        for line in reversed(whole_lines.split(b"\n")):
            reading = _reading(line.decode(errors="replace"))
            if reading is not None:
                return reading
        return None


def _reading(line: str) -> tuple[float, float] | None:
    """Return (when, watts) of a line; None where it is no reading."""
    cells = [cell.strip().strip('"') for cell in line.split(",")]
    if len(cells) < 2:
        return None
    taken_s = _seconds(cells[0])
    with suppress(ValueError):
        watts = float(cells[1])
        if taken_s is not None and math.isfinite(taken_s) and 0 <= watts < MOST_WATTS:
            return taken_s, watts
    return None


def _seconds(text: str) -> float | None:
    """Return a time as seconds since 1970; None where it is none."""
    with suppress(ValueError):
        return float(text)
    with suppress(ValueError, OverflowError, OSError):
        return datetime.datetime.fromisoformat(text).timestamp()
    return None


@SOURCES.register("csv")
def csv_file(argument: str, here: Surroundings) -> CsvFileSource:
    """Return the source of the file that the argument names.  Raises FieldError."""
    if not argument.strip():
        raise FieldError("power", "csv", f"csv:FILE, with lines of a time ({TIME}) and watts")
    return CsvFileSource(Path(argument.strip()), here.now)
