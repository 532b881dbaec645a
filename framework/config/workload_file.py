"""The schema of ``workload.yaml``, version 1: a mix that the load generator accepts, checked before any start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from framework.config.checked import LinePattern, Strict, Text, did_you_mean, refuse
from framework.config.document import Document

_BOUND = 2**53  # integers beyond it are not exact in every JSON reader
_TEXT = 2**20  # characters of one text and of one {word:N}
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
_SET_BY_GENERATOR = ("traceparent", "tracestate", "content-length", "transfer-encoding", "connection")
_REFERENCE = re.compile(r"([a-z][a-z0-9_]*)(?:([+-])[0-9]{1,15}|:([0-9]{1,7}))?")

Integer = Annotated[int, Field(ge=-_BOUND, le=_BOUND)]


def _ordered(pair: list[int]) -> list[int]:
    if pair[0] > pair[1]:
        raise refuse("[low, high] with low <= high")
    return pair


def _own(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_|~-]+", name) or re.search(r"[\r\n\x00]", value):
            raise refuse(f"valid HTTP headers, not {name!r}")
        if name.lower() in _SET_BY_GENERATOR:
            raise refuse(f"other headers than {name}, which the generator sets itself")
    return headers


Range = Annotated[list[Integer], Field(min_length=2, max_length=2), AfterValidator(_ordered)]
Times = Annotated[
    list[Annotated[int, Field(ge=0, le=10_000)]], Field(min_length=2, max_length=2), AfterValidator(_ordered)
]


class Zipf(Strict):
    """low + k - 1 with a probability proportional to 1 / k ** s."""

    low: Integer
    high: Integer
    s: float = Field(ge=0, le=100)

    @model_validator(mode="after")
    def _order(self) -> Zipf:
        if not 0 <= self.high - self.low < 10_000_000:
            raise refuse("low <= high, at most 10000000 values")
        return self


class Repeat(Strict):
    """``value`` appended a random number of times; each variable in it is drawn anew."""

    times: Times
    value: str


class RandomText(Strict):
    """Random letters and digits, then the repeats."""

    characters: int = Field(ge=0, le=_TEXT)
    repeat: list[Repeat] = Field(default_factory=list)


class Variable(Strict):
    """One of uniform, zipf, choice, text."""

    uniform: Range | None = None
    zipf: Zipf | None = None
    choice: Annotated[list[int | float | str], Field(min_length=1)] | None = None
    text: RandomText | None = None

    @model_validator(mode="after")
    def _one(self) -> Variable:
        if len(self.model_fields_set) != 1:
            raise refuse("exactly one of uniform, zipf, choice, text")
        return self

    @property
    def numeric(self) -> bool:
        if self.choice is not None:
            return all(isinstance(item, int) for item in self.choice)
        return self.text is None


class Expect(Strict):
    """A good reply; any status of 2xx where nothing is said."""

    status: int | None = Field(None, ge=200, le=599)
    body: LinePattern | None = None
    min_items: int | None = Field(None, ge=0)


class Request(Strict):
    """One kind of request of the mix."""

    name: Text
    weight: float = Field(gt=0)
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    path: str = Field(pattern=r"^/[^?#]*$")
    query: dict[str, str] = Field(default_factory=dict)
    form: dict[str, str] | None = None
    body: str | None = None
    headers: Annotated[dict[str, str], AfterValidator(_own)] = Field(default_factory=dict)
    expect: Expect | None = None

    @model_validator(mode="after")
    def _one_body(self) -> Request:
        if self.form is not None and self.body is not None:
            raise refuse("form or body, not both")
        return self


class WorkloadFile(Strict):
    """``workload.yaml``: the request mix."""

    kind: Literal["workload"]
    version: Literal[1]
    timeout_ms: float = Field(gt=0, le=600_000)
    variables: dict[Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")], Variable] = Field(default_factory=dict)
    requests: list[Request] = Field(min_length=1, max_length=256)


def check_references(document: Document, workload: WorkloadFile) -> None:
    """Check that every ``{name}`` is a variable and every name is given once.  Raises FileError."""
    for reserved in ("word", "seq"):
        if reserved in workload.variables:
            raise document.error(("variables", reserved), reserved, "another name ({word:N} and {seq} are built in)")
    plain = {name: variable for name, variable in workload.variables.items() if variable.text is None}
    for name, variable in workload.variables.items():
        for index, repeat in enumerate(variable.text.repeat if variable.text else ()):
            _check(document, ("variables", name, "text", "repeat", index, "value"), repeat.value, plain)
    names: set[str] = set()
    for index, request in enumerate(workload.requests):
        if request.name in names:
            raise document.error(("requests", index, "name"), request.name, "each name once")
        names.add(request.name)
        for key, text in _templates(request):
            _check(document, ("requests", index, *key), text, workload.variables)


def _templates(request: Request) -> Iterator[tuple[tuple[str, ...], str]]:
    yield ("path",), request.path
    if request.body is not None:
        yield ("body",), request.body
    for group in ("query", "form", "headers"):
        for name, text in (getattr(request, group) or {}).items():
            yield (group, name), text


def _check(document: Document, key: tuple[Any, ...], text: str, known: Mapping[str, Variable]) -> None:
    for token in _PLACEHOLDER.findall(text):
        if token in ("{{", "}}"):
            continue
        match = _REFERENCE.fullmatch(token[1:-1]) if len(token) > 1 else None
        if match is None:
            raise document.error(key, token, "{name}, {name+N}, {name-N}, {word:N}, {seq}; {{ and }} for braces")
        name, sign, length = match.groups()
        if (name == "word") != (length is not None) or (length is not None and int(length) > _TEXT):
            raise document.error(key, token, f"{{word:N}} with N up to {_TEXT}")
        if name not in ("word", "seq") and name not in known:
            raise document.error(key, token, f"the variables {', '.join(known) or '(none)'}{did_you_mean(name, known)}")
        if sign and name in known and not known[name].numeric:
            raise document.error(key, token, f"{{{name}}}: {name} is not a number")
