"""Bodies of requests, and the answers whose shape is declared.

Values of a body get into databases, logs, pages and optimizers.  So every body is refused, before its fields are
validated, that has NaN, infinity, integers beyond 64 bits, or text with control characters or surrogates (halves of
characters).  The message repeats nothing of the request.
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
MOST_INTEGER = 2**63  # beyond the integers of numpy and of databases
MOST_NUMBER = 2**31 - 1  # of an id, which every database can store
TrialNumber = Annotated[int, Field(ge=1, le=MOST_NUMBER)]


def is_plain_text(text: str) -> bool:
    """Whether a text is free of control characters (NUL, ESC, newline ...) and of surrogates (halves of characters)."""
    return text.isprintable() or not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)


def allowed_instead(value: Any) -> str:
    """Return what is allowed instead of a value in this JSON value that is refused; empty where none is refused."""
    stack = [value]  # not by recursion: a body may be nested deeper than Python's stack
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            if not is_plain_text(node):
                return "text without control characters and halves of characters"
        elif isinstance(node, float):
            if not math.isfinite(node):
                return "finite numbers"
        elif isinstance(node, int):
            if abs(node) >= MOST_INTEGER:
                return "integers of 64 bits"
        elif isinstance(node, dict):
            stack += node.keys()
            stack += node.values()
        elif isinstance(node, list):
            stack += node
    return ""


class Part(BaseModel):
    """A part of a body.  Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Body(Part):
    """A whole body: its numbers and texts are checked first, as said above, and once."""

    @model_validator(mode="before")
    @classmethod
    def _only_plain(cls, data: Any) -> Any:
        if allowed := allowed_instead(data):
            raise PydanticCustomError("not_plain", "allowed: {allowed}", {"allowed": allowed})
        return data


@with_options
class NewStudy(Body):
    """A tuning job; a field that is left out has the default of ``tailor tune``."""

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
        """Return the request of the use case.  ``kept_profile`` returns the service's profile, where it is wanted."""
        options = options_of(TuneRequest)
        given = {name: value_of(options[name], getattr(self, name)) for name in body_fields()}
        given["reduce"], _, screening = given["reduce"].partition(":")
        given["screening"] = StudyId(screening) if screening else None
        given["profile"] = kept_profile() if given["profile"] else None
        own = (name for name in self.model_fields_set & given.keys() if given[name] != options[name].default)
        return TuneRequest(**given, application=application, given=frozenset(own))


class Stop(Body):
    """A request to stop a study."""

    when: Literal["now", "after trial"] = "now"


class Resume(Body):
    """A request to resume a study."""

    priority: Annotated[int, Field(ge=-100, le=100)] = 0


class Parameter(Part):
    """A parameter of an external study, as ``optimizer.space.Parameter``."""

    name: Name
    kind: Literal["integer", "real", "categorical", "boolean"]
    default: bool | int | Finite | Name
    low: Finite | None = None
    high: Finite | None = None
    choices: Annotated[list[bool | int | Finite | Name], Field(max_length=1000)] = Field(default_factory=list)
    step: Finite | None = None
    scale: Literal["linear", "log"] = "linear"
    group: Annotated[str, Field(max_length=128)] = Field(
        "", description="empty: the part of the name before its first dot"
    )


class NewExternal(Body):
    """A study that its clients measure."""

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
        description="any name without slashes; it is not a path"
    )
    parameters: Annotated[list[Parameter], Field(min_length=1, max_length=5000)]
    optimizer: Name = DEFAULT_OPTIMIZER
    budget: Annotated[int, Field(ge=1, le=1_000_000)] = 30
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    options: Options = Field(default_factory=dict)
    subject_to: Names = Field(
        default_factory=list, description="limits on quantities that your results have, such as errors <= 0.01"
    )
    also: Names = Field(default_factory=list, description="quantities of your results that are minimised too")


class NewPoint(Part):
    """Requests per second that one node gave on so many physical cores; ``spread``: their standard error."""

    cores: Annotated[float, Field(ge=1, le=4096)]
    rps: Annotated[float, Field(gt=0, le=1e12)]
    spread: Annotated[float, Field(ge=0, le=1e12)] = 0.0


Points = Annotated[list[NewPoint], Field(max_length=100)]
Speed = Annotated[list[Annotated[float, Field(gt=0, le=1000)]], Field(min_length=1, max_length=3)]


class NewPlan(Body):
    """A question for machines.  Either ``reads`` or ``application`` says what one node can do."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "need": {"reads": "10M/s", "writes": "500k/s", "stored": "1TB", "record": "1KiB"},
                    "reads": [{"cores": 16, "rps": 1_123_453}],
                    "regions": ["eu-west-1"],
                }
            ]
        },
    )

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        """Refuse unknown keys here rather than by ``extra``: here the known ones can be listed."""
        if isinstance(data, dict) and not set(data) <= set(cls.model_fields):
            known = ", ".join(cls.model_fields)
            raise PydanticCustomError(
                "unknown_key", "found an unknown key; allowed: the keys {known}", {"known": known}
            )
        return data

    need: Annotated[dict[Name, Any], Field(max_length=30)] = Field(description="as in need.yaml")
    reads: Points = Field(default_factory=list)
    writes: Points = Field(default_factory=list, description="empty: a write costs as much as a read")
    application: Name | None = Field(None, description="whose node was measured here (nodes of GET /v1/plans)")
    catalogues: Names = Field(default_factory=list, description="of GET /v1/plans; empty: all")
    regions: Names = Field(default_factory=list, description="empty: all")
    speeds: Annotated[dict[Name, Speed], Field(max_length=20)] = Field(
        default_factory=dict, description="pattern of a processor's name -> [speed] or [low, likely, high] of its cores"
    )
    confidence: Annotated[float, Field(gt=0, le=1)] = 0.9
    draws: Annotated[int, Field(ge=100, le=2_000)] = 2_000
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    most_nodes: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    top: Annotated[int, Field(ge=1, le=100)] = 10
    most_times: Annotated[float, Field(ge=1, le=1000)] = 4.0
    extrapolate: bool = False
    media: bool = False


class Ask(Body):
    """A request for configurations.  ``client``: the name of the client, which holds the leases."""

    client: Name
    count: Annotated[int, Field(ge=1, le=1000)] = 1
    lease_s: Annotated[float, Field(gt=0, le=604_800)] = 600.0


class Result(Part):
    """The result of a trial: a value, or a state that says why there is none."""

    trial: TrialNumber
    value: Finite | None = None
    standard_error: Annotated[Finite, Field(ge=0)] | None = None
    state: Literal["completed", "failed", "infeasible"] = "completed"
    reason: Annotated[str, Field(max_length=2000)] = ""
    quantities: Numbers = Field(
        default_factory=dict, description="the quantities that the study's limits and ``also`` name"
    )
    costs: Numbers = Field(
        default_factory=dict,
        description="group of parameters -> its cost in the trial, such as CPU time per request; above 0",
    )


class Tell(Body):
    """Results, in any order."""

    results: Annotated[list[Result], Field(min_length=1, max_length=1000)]


class Heartbeat(Body):
    """The trials that a client still measures."""

    client: Name
    trials: Annotated[list[TrialNumber], Field(max_length=1000)]
    lease_s: Annotated[float, Field(gt=0, le=604_800)] = 600.0


IdempotencyHeader = Annotated[
    str | None, Header(alias="Idempotency-Key", max_length=128, min_length=1, pattern="^[ -~]+$")
]
"""Key of a request: the same request with the same key returns the study that the first one made."""


class Page(BaseModel):
    """A page of a list.  ``next``: the value of ``after`` for the next page; null on the last one."""

    items: list[dict[str, Any]]
    next: str | None = None
