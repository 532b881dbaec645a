"""Texts that say where a tail latency is read: NAME=PLACE, or NAME[option=value,...]=PLACE."""

from __future__ import annotations

import re

from framework.errors import FieldError
from framework.ports.sensor import Sensor
from framework.telemetry.latency.registry import SOURCES
from framework.telemetry.latency.source import BackgroundSensor, Place, without_password

_TEXT = re.compile(r"(?P<name>[a-z][a-z0-9-]*)(?:\[(?P<options>[^\]]*)\])?=(?P<place>.+)", re.DOTALL)


def latency_source(text: str, quantile: float) -> Sensor:
    """Return the sensor of a quantile (0 to 1) of the latency, and of the rate, at the place that ``text`` names.

    The place is asked once before this returns.  Raises FieldError where the text cannot be read, or its place does
    not answer; MissingPrerequisite where a source of another package cannot be loaded.
    """
    name, place = read_text(text, quantile)
    return BackgroundSensor(without_password(text), SOURCES.get(name)(place)).begin()


def read_text(text: str, quantile: float) -> tuple[str, Place]:
    """Return the name of the source, which is registered, and its place.  Raises FieldError."""
    match = _TEXT.fullmatch(text.strip())
    names = sorted(SOURCES.names())
    if match is None or match["name"] not in names:
        allowed = f"NAME=PLACE or NAME[option=value,...]=PLACE, with one of the names {', '.join(names)}"
        raise FieldError("latency", without_password(text), allowed)
    options = {}
    for part in filter(None, (match["options"] or "").split(",")):
        option, equals, value = part.partition("=")
        if not equals or not value.strip():
            raise FieldError("latency", part, "options written option=value, with commas between them")
        options[option.strip()] = value.strip()
    return match["name"], Place(match["place"], quantile, options)
