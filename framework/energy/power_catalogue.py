"""The power of servers by their processor, as SPECpower_ssj2008 has measured it, without a meter of one's own.

A processor that is in the catalogue by its name has the power of such servers; another one that of its generation,
which is known less exactly.  Watts are of the whole server with everything in it.  A virtual machine is counted with
its share: watts of a hardware thread of the server, times the CPUs that it has.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from framework.energy.generations import short_name
from framework.energy.processor import Processor
from framework.energy.unseen import BEND, SHAPE_ERROR
from framework.errors import FieldError
from framework.model.energy import MOST_WATTS, PowerCurve

DATA = Path(__file__).parent / "data"
ALLOWED = (
    "idle and full watts of this machine, and if need be how power bends between them, such as 120,350 or 120,350,0.7"
)
LEAST_BEND, MOST_BEND = 0.1, 3.0


@dataclass(frozen=True, slots=True)
class ServerPower:
    """Idle and full watts of servers with a kind of processor, for each hardware thread and for each chip.

    ``chip_threads``: hardware threads of a chip, 0 where the kind is a generation, whose chips differ.  ``error``: of
    the watts, half-width of the 95 % interval as a logarithm, by leaving out one system after the other (one processor
    after the other).  ``systems``: how many servers were measured.
    """

    kind: str
    idle_w: float
    full_w: float
    chip_threads: int
    error: float
    systems: int


def server_power(processor: Processor) -> ServerPower | None:
    """Return the power of servers with this processor: by its name, else by its generation; None without both."""
    by_name = _processors().get(processor.short)
    if by_name is not None:
        return by_name
    generation = processor.generation
    return None if generation is None else _generations().get(generation.name)


def curve_for(processor: Processor) -> PowerCurve | None:
    """Return the power of this machine by its utilisation; None where nothing is known of its processor.

    A machine that is no virtual one has whole chips, of which there are as many as sockets.
    """
    power = server_power(processor)
    if power is None:
        return None
    threads = processor.cpus
    if power.chip_threads and processor.packages and not processor.virtual:
        threads = processor.packages * power.chip_threads
    whose = "its share of a server" if processor.virtual else "a server"
    return PowerCurve(
        power.idle_w * threads,
        power.full_w * threads,
        BEND,
        math.hypot(power.error, SHAPE_ERROR),
        f"SPECpower, {whose} with {power.kind} ({power.systems} systems measured)",
        power.error,
    )


def curve_of(name: str, cpus: int) -> PowerCurve | None:
    """Return the power of ``cpus`` hardware threads of a processor of this name, by their utilisation.

    None where nothing is known of it, as of a name that a virtual machine hides (``curve_for`` knows more then).
    """
    return curve_for(Processor(name, cpus=cpus))


def curve_in(text: str) -> PowerCurve:
    """Return the curve of a text of idle and full watts, such as ``120,350``.  Raises FieldError."""
    cells = text.split(",")
    try:
        idle_w, full_w, *rest = (float(cell) for cell in cells)
        bend = rest[0] if rest else BEND
    except ValueError:
        raise FieldError("power", text, ALLOWED) from None
    if not 0 <= idle_w <= full_w < MOST_WATTS or full_w == 0 or len(rest) > 1:
        raise FieldError("power", text, f"{ALLOWED}, idle no more than full, below {MOST_WATTS:g} W")
    if not LEAST_BEND <= bend <= MOST_BEND:
        raise FieldError("power", text, f"{ALLOWED}; the bend from {LEAST_BEND:g} to {MOST_BEND:g}")
    return PowerCurve(idle_w, full_w, bend, SHAPE_ERROR, "idle and full watts that were given", 0.0)


@cache
def thermal_design_watts() -> Mapping[str, float]:
    """Return short name -> thermal design power of a chip [W]."""
    return {row["processor"]: float(row["tdp_w"]) for row in _rows("thermal.csv")}


@cache
def _processors() -> Mapping[str, ServerPower]:
    """Return short name -> power of servers with it."""
    powers = {}
    for row in _rows("processors.csv"):
        chip_threads = int(row["cores_per_chip"]) * int(row["threads_per_core"])
        threads = int(row["chips"]) * chip_threads
        powers[row["processor"]] = ServerPower(
            row["processor"], float(row["idle_w"]) / threads, float(row["full_w"]) / threads, chip_threads,
            float(row["error"]), int(row["systems"]),
        )  # fmt: skip
    return powers


@cache
def _generations() -> Mapping[str, ServerPower]:
    """Return name of a generation -> power of servers of it."""
    return {
        row["generation"]: ServerPower(
            f"{row['generation']} processors", float(row["idle_w_per_thread"]), float(row["full_w_per_thread"]), 0,
            float(row["error"]), int(row["systems"]),
        )
        for row in _rows("generations.csv")
    }  # fmt: skip


def _rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def known_processors() -> tuple[str, ...]:
    """Return the short names in the catalogue."""
    return tuple(_processors())


def tdp_of(name: str) -> float | None:
    """Return the thermal design power of a chip [W] by its processor's name; None where it is not in the list."""
    return thermal_design_watts().get(short_name(name))
