"""What requests carry, and the shapes of answers that have one of their own."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from framework.model import TuneRequest

Name = Annotated[str, Field(min_length=1, max_length=128)]
Names = Annotated[list[Name], Field(max_length=500)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Body(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NewStudy(Body):
    """A tuning job; what is left out has the default of ``tailor tune``."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [{"application": "social-network", "optimizer": "dds", "iterations": 15, "testbed": "twin"}]
        },
    )

    application: Name = Field(description="one of GET /v1/applications")
    optimizer: Name = "dds"
    iterations: Annotated[int, Field(ge=1, le=10_000)] = 15
    repetitions: Annotated[int, Field(ge=1, le=100)] = 3
    warmup_s: Annotated[float, Field(ge=0, le=600)] = 5.0
    window_s: Annotated[float, Field(ge=1, le=3600)] = 20.0
    rate_rps: Annotated[float, Field(ge=1, le=100_000)] | None = None
    pairs: Annotated[int, Field(ge=0, le=200)] = 10
    minimal: Annotated[int, Field(ge=0, le=3)] = 1
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    only: Names = Field(default_factory=list, description="services or service.parameter to tune; empty: all")
    without: Names = Field(default_factory=list)
    allow_weaker: Names = Field(default_factory=list)
    initial: Literal["default", "random"] = "default"
    incremental: bool = False
    target_ms: Annotated[float, Field(gt=0)] | None = None
    time_limit_s: Annotated[float, Field(gt=0)] | None = None
    drift_every: Annotated[int, Field(ge=0, le=1000)] = 5
    quick: bool = False
    reduce: Name = "none"
    thresholds: dict[Name, float] = Field(default_factory=dict, max_length=20)
    limits: dict[Name, float] = Field(default_factory=dict, max_length=20)
    subject_to: Names = Field(default_factory=list)
    also: Names = Field(default_factory=list)
    history: Annotated[list[Name], Field(max_length=20)] = Field(default_factory=list, description="ids of studies")
    prior: Literal["none", "twin"] = "none"
    testbed: Literal["auto", "docker", "twin"] = "auto"
    options: dict[Name, Any] = Field(default_factory=dict, max_length=50, description="of the optimizer")
    priority: Annotated[int, Field(ge=-100, le=100)] = Field(0, description="higher first")

    def request(self, application: Path) -> TuneRequest:
        """The same for the use case."""
        known = {field.name for field in fields(TuneRequest)}
        given = {name: value for name, value in self.model_dump().items() if name in known}
        tuples = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        return TuneRequest(**{**given, **tuples, "application": application})


class Stop(Body):
    """When a study stops."""

    when: Literal["now", "after trial"] = "now"


class Resume(Body):
    """A study goes on."""

    priority: Annotated[int, Field(ge=-100, le=100)] = 0


class Page(BaseModel):
    """A part of a list.  ``next``: what to ask for as ``after``; null at the end."""

    items: list[dict[str, Any]]
    next: str | None = None
