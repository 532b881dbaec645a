"""Amounts with their units, as people write them in a need: ``1TB``, ``10M/s``, ``20%``, ``1ms``; one, or an interval.

Each kind of amount is a file model that takes one value or ``{low, likely, high}``.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import AfterValidator, GetJsonSchemaHandler, WithJsonSchema, model_validator
from pydantic_core import CoreSchema

from framework.config.checked import Strict, refuse
from framework.model.capacity import Interval

MOST = 1e21  # of any amount: a zettabyte, and far beyond every rate
_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_BYTES = {
    "B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15,
    "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40, "PiB": 2.0**50,
}  # fmt: skip
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PER = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}

RATE_PATTERN = rf"^{_NUMBER} ?([kMG]?)/(s|min|h|d)$"
BYTES_PATTERN = rf"^{_NUMBER} ?({'|'.join(_BYTES)})$"
TIME_PATTERN = rf"^{_NUMBER} ?({'|'.join(_TIMES)})$"
COUNT_PATTERN = rf"^{_NUMBER}([kMG])$"
PERCENT_PATTERN = rf"^{_NUMBER} ?%$"

RATE = "a rate above 0 per s, min, h or d, such as 10M/s, 500k/s, 90/min"
BYTES = f"bytes above 0 with their unit, {', '.join(_BYTES)}, such as 1TB"
TIME = f"a time above 0 with its unit, {', '.join(_TIMES)}, such as 1ms"
COUNT = "a number of at least 1, such as 1000 or 100k"
GROWTH = "growth per year in percent, such as 50%, above -100% and at most 10000%"
SHARE = "a share of at least 0 and below 1, such as 20% or 0.2"
FILLED = "a share above 0 and at most 1, such as 75% or 0.75"


def _matched(text: Any, pattern: str, allowed: str) -> re.Match[str]:
    match = re.fullmatch(pattern, text) if type(text) is str else None
    if match is None:
        spelling = "; without commas" if "," in str(text) else "; without spaces" if " " in str(text) else ""
        raise refuse(allowed + spelling)
    return match


def _positive(value: float, allowed: str) -> float:
    if value > MOST:
        raise refuse(f"{allowed}; at most 10^21, in the unit without a prefix")
    if not value > 0:
        raise refuse(allowed)
    return value


def _rate(text: Any) -> float:
    match = _matched(text, RATE_PATTERN, RATE)
    return _positive(float(match[1]) * _PREFIXES[match[2]] / _PER[match[3]], RATE)


def _bytes(text: Any) -> float:
    match = _matched(text, BYTES_PATTERN, BYTES)
    return _positive(float(match[1]) * _BYTES[match[2]], BYTES)


def _time(text: Any) -> float:
    match = _matched(text, TIME_PATTERN, TIME)
    return _positive(float(match[1]) * _TIMES[match[2]], TIME)


def _count(value: Any) -> float:
    if type(value) is str:
        match = _matched(value, COUNT_PATTERN, COUNT)
        value = float(match[1]) * _PREFIXES[match[2]]
    if type(value) not in (int, float) or not 1 <= value <= 1e12:
        raise refuse(COUNT)
    return float(value)


def _growth(text: Any) -> float:
    """Return the factor: 1.5 for 50 %."""
    match = _matched(text, rf"^(-?){PERCENT_PATTERN[1:]}", GROWTH)
    percent = float(match[2]) * (-1 if match[1] else 1)
    if not -100 < percent <= 10_000:
        raise refuse(GROWTH)
    return 1 + percent / 100


def _number_or_percent(value: Any, allowed: str) -> float:
    if type(value) is str:
        value = float(_matched(value, PERCENT_PATTERN, allowed)[1]) / 100
    if type(value) not in (int, float) or not math.isfinite(value):
        raise refuse(allowed)
    return float(value)


def _share(value: Any) -> float:
    share = _number_or_percent(value, SHARE)
    if not 0 <= share < 1:
        raise refuse(SHARE)
    return share


def _filled(value: Any) -> float:
    share = _number_or_percent(value, FILLED)
    if not 0 < share <= 1:
        raise refuse(FILLED)
    return share


def _text_schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern})


def _number_schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "pattern": pattern}]})


Rate = Annotated[Any, AfterValidator(_rate), _text_schema(RATE_PATTERN)]
Bytes = Annotated[Any, AfterValidator(_bytes), _text_schema(BYTES_PATTERN)]
Time = Annotated[Any, AfterValidator(_time), _text_schema(TIME_PATTERN)]
Count = Annotated[Any, AfterValidator(_count), _number_schema(COUNT_PATTERN)]
Growth = Annotated[Any, AfterValidator(_growth), _text_schema(rf"^-?{PERCENT_PATTERN[1:]}")]
Share = Annotated[Any, AfterValidator(_share), _number_schema(PERCENT_PATTERN)]
Filled = Annotated[Any, AfterValidator(_filled), _number_schema(PERCENT_PATTERN)]


class _Amount(Strict):
    """One value, or ``low``, ``likely`` and ``high``."""

    @model_validator(mode="before")
    @classmethod
    def _exactly(cls, data: Any) -> Any:
        return data if isinstance(data, dict) else dict.fromkeys(("low", "likely", "high"), data)

    @model_validator(mode="after")
    def _ordered(self) -> _Amount:
        interval = self.interval()
        if not interval.low <= interval.likely <= interval.high:
            raise refuse("low <= likely <= high")
        return self

    def interval(self) -> Interval:
        values = [getattr(self, name) for name in ("low", "likely", "high")]
        return Interval(*values)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        interval = handler.resolve_ref_schema(handler(core_schema))
        value = {key: part for key, part in interval["properties"]["likely"].items() if key != "title"}
        return {"description": cls.__doc__, "anyOf": [value, {**interval, "description": "an interval"}]}


class RateAmount(_Amount):
    """Requests in a time."""

    low: Rate
    likely: Rate
    high: Rate


class BytesAmount(_Amount):
    """Bytes."""

    low: Bytes
    likely: Bytes
    high: Bytes


class TimeAmount(_Amount):
    """A time."""

    low: Time
    likely: Time
    high: Time


class CountAmount(_Amount):
    """A number of things."""

    low: Count
    likely: Count
    high: Count


class GrowthAmount(_Amount):
    """Growth in a year."""

    low: Growth
    likely: Growth
    high: Growth
