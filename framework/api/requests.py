"""What requests carry, and the shapes of answers that have one of their own.

What a body says ends in databases, logs, pages and optimizers, so that the same is refused of all of them before any
field is looked at: numbers that are none (NaN, infinity) or beyond 64 bits, and text with control characters or halves
of characters.  A complaint repeats nothing of what was sent.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Header
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from framework.api.option_fields import Finite, Name, Names, Options, body_fields, value_of, with_options
from framework.model import DEFAULT_OPTIMIZER, StudyId, TuneRequest
from framework.model.options import options_of

Numbers = Annotated[dict[Name, Finite], Field(max_length=5000)]
MOST_INTEGER = 2**63  # numpy's and every database's
MOST_NUMBER = 2**31 - 1  # that every database takes
TrialNumber = Annotated[int, Field(ge=1, le=MOST_NUMBER)]


def is_plain_text(text: str) -> bool:
    """Whether a text has neither control characters (NUL, ESC, newline ...) nor halves of characters (surrogates)."""
    return text.isprintable() or not any(unicodedata.category(one) in ("Cc", "Cs") for one in text)


def allowed_instead(value: Any) -> str:
    """What is allowed in place of something in a JSON value that may not be taken; empty where all of it may."""
    waiting = [value]  # not by recursion: a body may be nested deeper than Python can follow
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if not is_plain_text(one):
                return "text without control characters and halves of characters"
        elif isinstance(one, float):
            if not math.isfinite(one):
                return "finite numbers"
        elif isinstance(one, int):
            if abs(one) >= MOST_INTEGER:
                return "integers of 64 bits"
        elif isinstance(one, dict):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return ""


class Part(BaseModel):
    """A part of a body.  Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Body(Part):
    """A whole body: what is said of its numbers and texts above is checked first, and once."""

    @model_validator(mode="before")
    @classmethod
    def _only_plain(cls, data: Any) -> Any:
        if allowed := allowed_instead(data):
            raise PydanticCustomError("not_plain", "allowed: {allowed}", {"allowed": allowed})
        return data


@with_options
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
    priority: Annotated[int, Field(ge=-100, le=100)] = Field(0, description="higher first")

    def request(self, application: Path, kept_profile: Callable[[], Path]) -> TuneRequest:
        """The request of the use case.  ``kept_profile``: finds the service's own, asked where one is wanted."""
        known = options_of(TuneRequest)
        given = {name: value_of(known[name], getattr(self, name)) for name in body_fields()}
        given["reduce"], _, screening = given["reduce"].partition(":")
        given["screening"] = StudyId(screening) if screening else None
        given["profile"] = kept_profile() if given["profile"] else None
        return TuneRequest(**given, application=application)


class Stop(Body):
    """When a study stops."""

    when: Literal["now", "after trial"] = "now"


class Resume(Body):
    """A study goes on."""

    priority: Annotated[int, Field(ge=-100, le=100)] = 0


class Parameter(Part):
    """A parameter of a space of one's own, as ``optimizer.space.Parameter``."""

    name: Name
    kind: Literal["integer", "real", "categorical", "boolean"]
    default: bool | int | Finite | Name
    low: Finite | None = None
    high: Finite | None = None
    choices: Annotated[list[bool | int | Finite | Name], Field(max_length=1000)] = Field(default_factory=list)
    step: Finite | None = None
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

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^/\\]*[^/\\. ][^/\\]*$")] = Field(
        description="what you call it: it is no path, and has no slashes"
    )
    parameters: Annotated[list[Parameter], Field(min_length=1, max_length=5000)]
    optimizer: Name = DEFAULT_OPTIMIZER
    budget: Annotated[int, Field(ge=1, le=1_000_000)] = 30
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    options: Options = Field(default_factory=dict)
    subject_to: Names = Field(default_factory=list, description="limits on quantities that you tell: errors <= 0.01")
    also: Names = Field(default_factory=list, description="quantities that you tell and want low too")


class Ask(Body):
    """``client``: who asks; its leases are its own."""

    client: Name
    count: Annotated[int, Field(ge=1, le=1000)] = 1
    lease_s: Annotated[float, Field(gt=0, le=604_800)] = 600.0


class Result(Part):
    """What a trial gave; a value, or a state that says why there is none."""

    trial: TrialNumber
    value: Finite | None = None
    standard_error: Annotated[Finite, Field(ge=0)] | None = None
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


IdempotencyHeader = Annotated[
    str | None, Header(alias="Idempotency-Key", max_length=128, min_length=1, pattern="^[ -~]+$")
]
"""Whoever sends a request again with the same key gets what the first one made."""


class Page(BaseModel):
    """A part of a list.  ``next``: what to ask for as ``after``; null at the end."""

    items: list[dict[str, Any]]
    next: str | None = None
