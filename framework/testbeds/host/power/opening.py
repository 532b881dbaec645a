"""Texts that name a power source: NAME, NAME:ARGUMENT, or auto, the best one that works here."""

from __future__ import annotations

from framework.errors import MissingPrerequisite
from framework.ports.energy import PowerSource
from framework.testbeds.host.power.registry import SOURCES, Surroundings

AUTO = "auto"
METERS = ("rapl", "hwmon", "ipmi")
"""Meters that need no argument.  RAPL first: it counts every millisecond, the others tell a mean of seconds."""
MODELS = ("curve", "tdp")
"""Models that need no argument, the less wrong one first."""


def open_source(text: str, here: Surroundings | None = None) -> PowerSource:
    """Return the source that a text names, whether or not it works here, which its ``missing`` says.

    ``auto`` is the first meter that works here, else the first model that does.  Raises UnknownName, FieldError,
    FileError; MissingPrerequisite where nothing works for ``auto``, or another package's source cannot be loaded.
    """
    here = here or Surroundings()
    name, _, argument = text.strip().partition(":")
    if name == AUTO and not argument:
        return best_source(here)
    return SOURCES.get(name)(argument, here)


def best_source(here: Surroundings) -> PowerSource:
    """Return the first meter, else the first model, that works here.  Raises MissingPrerequisite where none does."""
    lacks = []
    for name in (*METERS, *MODELS):
        source = SOURCES.get(name)("", here)
        lack = source.missing()
        if not lack:
            return source
        source.close()
        lacks.append(f"{name}: {lack}")
    raise MissingPrerequisite(
        "no power source works here: " + "; ".join(lacks),
        "give this machine's idle and full watts, as curve:IDLE,FULL, or readings of a meter, as csv:FILE",
    )


def every_source(here: Surroundings | None = None) -> tuple[PowerSource, ...]:
    """Return the sources that need no argument, the best first, to say of each whether it works here."""
    here = here or Surroundings()
    return tuple(SOURCES.get(name)("", here) for name in (*METERS, *MODELS))
