"""What requests carry, and the shapes of answers that have one of their own."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from framework.model import DEFAULT_OPTIMIZER, TuneRequest

Name = Annotated[str, Field(min_length=1, max_length=128)]
Names = Annotated[list[Name], Field(max_length=500)]
Numbers = Annotated[dict[Name, Annotated[float, Field(allow_inf_nan=False)]], Field(max_length=5000)]
MOST_NUMBER = 2**31 - 1  # that every database takes
TrialNumber = Annotated[int, Field(ge=1, le=MOST_NUMBER)]


class Body(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NewStudy(Body):
    """A tuning job; what is left out has the default of ``tailor tune``."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [{"application": "social-network", "optimizer": "tailor", "iterations": 15, "testbed": "twin"}]
        },
    )

    application: Name = Field(description="one of GET /v1/applications")
    optimizer: Name = DEFAULT_OPTIMIZER
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
    placement: Literal["none", "also", "only"] = "none"
    domains: Annotated[str, Field(max_length=2000)] = Field("2", description="CPU sets: how many, or 0-3/4-7")
    pin: Names = Field(default_factory=list, description="service=CPUs, for optimizers of placements")
    apart: Names = Field(default_factory=list, description="service:service, for optimizers of placements")
    profile: bool = Field(False, description="place by what `tailor profile` measured of the application on the server")
    thresholds: dict[Name, float] = Field(default_factory=dict, max_length=20)
    limits: dict[Name, float] = Field(default_factory=dict, max_length=20)
    subject_to: Names = Field(default_factory=list)
    also: Names = Field(default_factory=list)
    history: Annotated[list[Name], Field(max_length=20)] = Field(default_factory=list, description="ids of studies")
    prior: Literal["none", "twin"] = "none"
    testbed: Literal["auto", "docker", "twin"] = "auto"
    options: dict[Name, Any] = Field(default_factory=dict, max_length=50, description="of the optimizer")
    priority: Annotated[int, Field(ge=-100, le=100)] = Field(0, description="higher first")

    def request(self, application: Path, profile: Path | None = None) -> TuneRequest:
        """The same for the use case; ``profile``: the kept one's file, where one is wanted."""
        known = {field.name for field in fields(TuneRequest)}
        given = {name: value for name, value in self.model_dump().items() if name in known}
        tuples = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        return TuneRequest(**{**given, **tuples, "application": application, "profile": profile})


class Stop(Body):
    """When a study stops."""

    when: Literal["now", "after trial"] = "now"


class Resume(Body):
    """A study goes on."""

    priority: Annotated[int, Field(ge=-100, le=100)] = 0


class Parameter(Body):
    """A parameter of a space of one's own, as ``optimizer.space.Parameter``."""

    name: Name
    kind: Literal["integer", "real", "categorical", "boolean"]
    default: bool | int | float | Name
    low: float | None = None
    high: float | None = None
    choices: Annotated[list[bool | int | float | Name], Field(max_length=1000)] = Field(default_factory=list)
    step: float | None = None
    scale: Literal["linear", "log"] = "linear"
    group: Annotated[str, Field(max_length=128)] = Field("", description="empty: what stands before the name's dot")


class NewExternal(Body):
    """A study that is measured elsewhere."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "name": "my cluster",
                    "budget": 30,
                    "parameters": [{"name": "web.threads", "kind": "integer", "default": 8, "low": 1, "high": 64}],
                }
            ]
        },
    )

    name: Name
    parameters: Annotated[list[Parameter], Field(min_length=1, max_length=5000)]
    optimizer: Name = DEFAULT_OPTIMIZER
    budget: Annotated[int, Field(ge=1, le=1_000_000)] = 30
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    options: dict[Name, Any] = Field(default_factory=dict, max_length=50)
    subject_to: Names = Field(default_factory=list, description="limits on quantities that you tell: errors <= 0.01")
    also: Names = Field(default_factory=list, description="quantities that you tell and want low too")


class Ask(Body):
    """``client``: who asks; its leases are its own."""

    client: Name
    count: Annotated[int, Field(ge=1, le=1000)] = 1
    lease_s: Annotated[float, Field(gt=0, le=604_800)] = 600.0


class Result(Body):
    """What a trial gave; a value, or a state that says why there is none."""

    trial: TrialNumber
    value: Annotated[float, Field(allow_inf_nan=False)] | None = None
    standard_error: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    state: Literal["completed", "failed", "infeasible"] = "completed"
    reason: Annotated[str, Field(max_length=2000)] = ""
    quantities: Numbers = Field(default_factory=dict, description="what the study's limits and further wishes need")
    costs: Numbers = Field(
        default_factory=dict, description="group of parameters -> what the trial took of it, above 0"
    )


class Tell(Body):
    """Results, in any order."""

    results: Annotated[list[Result], Field(min_length=1, max_length=1000)]


class Heartbeat(Body):
    """The trials that a client is still measuring."""

    client: Name
    trials: Annotated[list[TrialNumber], Field(max_length=1000)]
    lease_s: Annotated[float, Field(gt=0, le=604_800)] = 600.0


class Page(BaseModel):
    """A part of a list.  ``next``: what to ask for as ``after``; null at the end."""

    items: list[dict[str, Any]]
    next: str | None = None
