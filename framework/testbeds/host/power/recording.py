"""A recording of power that was made before, replayed: a CSV file with the columns time_s, watts and maybe zone."""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from framework.config.reading import read_bytes
from framework.energy.zones import MACHINE
from framework.errors import FieldError, FileError, KnobRefused
from framework.model.energy import MOST_WATTS, CpuTimes, Joules, Label
from framework.testbeds.host.power.counted import CountedSource
from framework.testbeds.host.power.registry import SOURCES, Surroundings

COLUMNS = ("time_s", "watts")
MOST_BYTES = 64 * 2**20
ALLOWED = "columns time_s [s, rising], watts and, if need be, zone (psys, package-N, dram-N, machine)"


@dataclass(slots=True)
class _Curve:
    """Power of a zone over time: times [s], watts, and the joules up to each time."""

    times: list[float] = field(default_factory=list)
    watts: list[float] = field(default_factory=list)
    joules: list[float] = field(default_factory=list)

    def joules_at(self, time_s: float) -> float | None:
        """Return the joules from the first time to another one; None outside the recording."""
        if not self.times[0] <= time_s <= self.times[-1]:
            return None
        at = bisect_right(self.times, time_s) - 1
        if at == len(self.times) - 1:
            return self.joules[-1]
        over_s, step_s = time_s - self.times[at], self.times[at + 1] - self.times[at]
        watts = self.watts[at] + (self.watts[at + 1] - self.watts[at]) * over_s / step_s
        return self.joules[at] + (self.watts[at] + watts) / 2 * over_s


class RecordingSource(CountedSource):
    """A recording's joules by the time since the first reading; implements ``framework.ports.energy.PowerSource``.

    Power goes in a straight line between two rows of a zone.  After the last row there is no reading.
    """

    name = "recording"
    label: Label = "recorded"

    def __init__(self, path: Path) -> None:
        """Raises FileError."""
        super().__init__()
        self._path, self._curves = path, read_recording(path)
        self._starts_s = max(curve.times[0] for curve in self._curves.values())
        self._first_s: float | None = None
        self._before: dict[str, float] = {}

    def missing(self) -> str:
        return ""

    def about(self) -> str:
        length_s = min(curve.times[-1] for curve in self._curves.values()) - self._starts_s
        return f"a recording of {length_s:.0f} s ({self._path.name}): {', '.join(sorted(self._curves))}"

    def look(self, at_s: float, seconds: float | None, cpu: CpuTimes) -> dict[str, Joules]:
        if self._first_s is None:
            self._first_s = at_s
        now = {}
        for zone, curve in self._curves.items():
            joules = curve.joules_at(self._starts_s + at_s - self._first_s)
            if joules is None:
                raise KnobRefused(str(self._path), "the recording has ended")
            now[zone] = joules
        before, self._before = self._before, now
        return {
            zone: Joules.exactly(0.0 if seconds is None else max(0.0, joules - before[zone]))
            for zone, joules in now.items()
        }


def read_recording(path: Path) -> dict[str, _Curve]:
    """Read zone -> power over time.  Raises FileError."""
    try:
        lines = read_bytes(path, MOST_BYTES).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise FileError(path, "", "bytes that are no UTF-8", "a CSV file in UTF-8") from None
    rows = csv.DictReader(lines)
    columns = [name.strip() for name in rows.fieldnames or ()]
    if not set(COLUMNS) <= set(columns):
        raise FileError(path, "line 1", ",".join(columns), ALLOWED)
    rows.fieldnames = columns
    curves: dict[str, _Curve] = {}
    try:
        for row in rows:
            _add(path, f"line {rows.line_num}", row, curves)
    except csv.Error as error:
        raise FileError(path, f"line {rows.line_num}", str(error), ALLOWED) from error
    if not curves or any(len(curve.times) < 2 for curve in curves.values()):
        raise FileError(path, "", "fewer than two rows of a zone", "at least two")
    for curve in curves.values():
        curve.joules.append(0.0)
        points = zip(curve.times, curve.watts, strict=True)
        for (time_s, watts), (later_s, later_watts) in pairwise(points):
            curve.joules.append(curve.joules[-1] + (watts + later_watts) / 2 * (later_s - time_s))
    return curves


def _add(path: Path, line: str, row: dict[str, str | None], curves: dict[str, _Curve]) -> None:
    """Add a row to its zone.  Raises FileError."""
    numbers = []
    for column in COLUMNS:
        try:
            numbers.append(float(row[column] or ""))
        except ValueError:
            raise FileError(path, f"{line}, {column}", row[column], "a number") from None
    time_s, watts = numbers
    curve = curves.setdefault((row.get("zone") or MACHINE).strip(), _Curve())
    if not math.isfinite(time_s) or (curve.times and time_s <= curve.times[-1]):
        raise FileError(path, f"{line}, time_s", row["time_s"], "a time after the one before of this zone")
    if not 0 <= watts < MOST_WATTS:
        raise FileError(path, f"{line}, watts", row["watts"], f"watts of a machine, from 0 to {MOST_WATTS:g}")
    curve.times.append(time_s)
    curve.watts.append(watts)


@SOURCES.register("recording")
def recording(argument: str, here: Surroundings) -> RecordingSource:
    """Return the source of the file that the argument names.  Raises FieldError, FileError."""
    if not argument.strip():
        raise FieldError("power", "recording", "recording:FILE, a CSV file with the columns time_s, watts")
    return RecordingSource(Path(argument.strip()))
