"""The schema of a file with a rate that changes with time, ``kind: load-profile``, version 1, and its reading."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from framework.config.checked import Strict, load, refuse
from framework.config.durations import seconds
from framework.errors import InputError
from framework.model import RatePoint, RateProfile

LONGEST_S = 366 * 86_400.0
DURATION = "a number with its unit, ms, s, m, h or d, such as 90m, at most 366d"


def _duration(text: str) -> str:
    try:
        value = seconds("", text)
    except InputError:
        raise refuse(DURATION) from None
    if not value <= LONGEST_S:
        raise refuse(DURATION)
    return text


Duration = Annotated[str, AfterValidator(_duration)]


class ProfilePoint(Strict):
    """The rate at a moment: ``rate`` or ``share``."""

    at: Duration = Field(description="from the beginning; not before that of the point above")
    rate: float | None = Field(None, ge=0, le=1e9, description="requests/s")
    share: float | None = Field(None, ge=0, le=100, description="of the rate that the run is given")

    @model_validator(mode="after")
    def _one(self) -> ProfilePoint:
        if (self.rate is None) == (self.share is None):
            raise refuse("one of rate, share")
        return self


class LoadProfileFile(Strict):
    """A rate that is linear between its points, constant before the first and after the last."""

    kind: Literal["load-profile"]
    version: Literal[1]
    description: str = ""
    length: Duration = Field(description="of the whole, such as 24h")
    points: list[ProfilePoint] = Field(min_length=1, max_length=10_000, description="two at one time are a jump")

    @model_validator(mode="after")
    def _order(self) -> LoadProfileFile:
        times = [seconds("", point.at) for point in self.points]
        for index in range(1, len(times)):
            if times[index] < times[index - 1]:
                raise refuse(
                    f"points in the order of their times; points[{index}].at, {self.points[index].at}, is before "
                    f"{self.points[index - 1].at}"
                )
        length_s = seconds("", self.length)
        if not length_s > 0:
            raise refuse("a length above 0")
        if times[-1] > length_s:
            raise refuse(f"no point after the length, {self.length}; the last one is at {self.points[-1].at}")
        if not any(point.rate or point.share for point in self.points):
            raise refuse("a rate above 0 at some point")
        return self


def read_load_profile(path: Path, *, rate_rps: float | None = None, factor: float = 1.0) -> RateProfile:
    """Read the rate over time.  ``rate_rps``: the rate that shares are of, and nothing else.

    ``factor``: how many times faster than written the profile passes: 144 for a day in ten minutes.  Raises FileError,
    FieldError for a factor that is not above 0.
    """
    document, file = load(path, LoadProfileFile)
    points = []
    for index, point in enumerate(file.points):
        if point.rate is not None:
            rate = point.rate
        elif point.share is not None and rate_rps is not None:
            rate = point.share * rate_rps
        else:
            raise document.error(
                ("points", index, "share"), point.share, "rate, as this run is given no rate to take a share of"
            )
        points.append(RatePoint(seconds("", point.at), rate))
    return RateProfile(tuple(points), seconds("", file.length)).compressed(factor)
