"""The schema of ``workload.yaml``, version 1: a mix that the load generator accepts, checked before any start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from framework.config.checked import Strict, Text, did_you_mean, refuse
from framework.config.document import Document
from framework.config.workload_requests import NAME, Headers, Request, Step, templates

_BOUND = 2**53  # integers beyond it are not exact in every JSON reader
_TEXT = 2**20  # characters of one text and of one {word:N}
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
_REFERENCE = re.compile(r"([a-z][a-z0-9_]*)(?:([+-])[0-9]{1,15}|:([0-9]{1,7}))?")
_USER_NUMBER = "user_number"

Integer = Annotated[int, Field(ge=-_BOUND, le=_BOUND)]


def _ordered(pair: list[int]) -> list[int]:
    if pair[0] > pair[1]:
        raise refuse("[low, high] with low <= high")
    return pair


Range = Annotated[list[Integer], Field(min_length=2, max_length=2), AfterValidator(_ordered)]
Times = Annotated[
    list[Annotated[int, Field(ge=0, le=10_000)]], Field(min_length=2, max_length=2), AfterValidator(_ordered)
]
Words = Annotated[list[int | float | str], Field(min_length=1)]


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
    """One of uniform, zipf, choice, by_user (a list in which each user has its own element), text."""

    uniform: Range | None = None
    zipf: Zipf | None = None
    choice: Words | None = None
    by_user: Words | None = None
    text: RandomText | None = None

    @model_validator(mode="after")
    def _one(self) -> Variable:
        if len(self.model_fields_set) != 1:
            raise refuse("exactly one of uniform, zipf, choice, by_user, text")
        return self

    @property
    def numeric(self) -> bool:
        words = self.choice if self.choice is not None else self.by_user
        if words is not None:
            return all(isinstance(item, int) for item in words)
        return self.text is None


class Users(Strict):
    """Simulated users, each with its own cookies and values; each performs the steps of ``login`` before the warm-up.

    ``order``: how requests get their user.  ``concurrency``: users that log in at the same time.  ``login_limit_s``:
    time for the log-in of all.
    """

    count: int = Field(ge=1, le=100_000)
    order: Literal["round-robin", "random"] = "round-robin"
    concurrency: int = Field(10, ge=1, le=1000)
    login_limit_s: float = Field(120.0, gt=0, le=3600)
    login: list[Step] = Field(default_factory=list, max_length=50)


class WorkloadFile(Strict):
    """``workload.yaml``: the request mix.

    ``protocol``: h2 is HTTP/2 over TLS (ALPN), h2c without (prior knowledge); requests with ``grpc`` use HTTP/2 always.
    ``connections``: of HTTP/2.  ``descriptors``: a FileDescriptorSet; without it gRPC's server reflection is asked.
    ``headers``: of every request; a step of the log-in gets those whose values it has by then.  Files are named from
    the application's directory.
    """

    kind: Literal["workload"]
    version: Literal[1]
    timeout_ms: float = Field(gt=0, le=600_000)
    protocol: Literal["http/1.1", "h2", "h2c"] = "http/1.1"
    connections: int | None = Field(None, ge=1, le=1000)
    descriptors: Text | None = None
    headers: Headers = Field(default_factory=dict)
    users: Users | None = None
    variables: dict[Annotated[str, Field(pattern=NAME)], Variable] = Field(default_factory=dict)
    requests: list[Request] = Field(min_length=1, max_length=256)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the log-in, then the requests of the mix."""
        return (*(self.users.login if self.users is not None else ()), *self.requests)

    @model_validator(mode="after")
    def _http2(self) -> WorkloadFile:
        calls = any(step.grpc is not None for step in self.steps)
        if self.connections is not None and not calls and self.protocol == "http/1.1":
            raise refuse("connections only with protocol h2 or h2c, or with requests that have grpc")
        if self.descriptors is not None and not calls:
            raise refuse("descriptors only with requests that have grpc")
        return self

    @property
    def files(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Key path and name of every file that the workload needs."""
        if self.descriptors is not None:
            yield ("descriptors",), self.descriptors
        for key, step in _located(self):
            if step.body_file is not None:
                yield (*key, "body_file"), step.body_file


def _located(workload: WorkloadFile) -> Iterator[tuple[tuple[str | int, ...], Step]]:
    for index, step in enumerate(workload.users.login if workload.users is not None else ()):
        yield ("users", "login", index), step
    for index, request in enumerate(workload.requests):
        yield ("requests", index), request


def check_references(document: Document, workload: WorkloadFile) -> None:
    """Check that every ``{name}`` is known where it stands and every name is given once.  Raises FileError."""
    _check_variables(document, workload)
    known = {name: variable.numeric for name, variable in workload.variables.items()}
    if workload.users is not None:
        known[_USER_NUMBER] = True
    for key, step in _located(workload):
        if key[0] == "users":  # a step has what the steps before it took
            _check_step(document, key, step, workload, known)
            _announce(document, key, step, workload, known)
    for key, step in _located(workload):
        if key[0] == "requests":  # a request has what any of them takes
            _announce(document, key, step, workload, known)
    names: set[str] = set()
    for index, request in enumerate(workload.requests):
        if request.name in names:
            raise document.error(("requests", index, "name"), request.name, "each name once")
        names.add(request.name)
        _check_step(document, ("requests", index), request, workload, known)
    for name, text in workload.headers.items():
        _check(document, ("headers", name), text, known)
        if workload.users is not None and name.lower() == "cookie":
            raise document.error(("headers", name), name, "no cookie: the users keep their own")


def _check_variables(document: Document, workload: WorkloadFile) -> None:
    reserved = ("word", "seq") if workload.users is None else ("word", "seq", _USER_NUMBER)
    for name in reserved:
        if name in workload.variables:
            built_in = "{word:N} and {seq}" if workload.users is None else "{word:N}, {seq} and {user_number}"
            raise document.error(("variables", name), name, f"another name ({built_in} are built in)")
    plain = {name: variable.numeric for name, variable in workload.variables.items() if variable.text is None}
    for name, variable in workload.variables.items():
        if variable.by_user is not None and workload.users is None:
            raise document.error(("variables", name, "by_user"), "by_user", "by_user only where there are `users`")
        for index, repeat in enumerate(variable.text.repeat if variable.text else ()):
            _check(document, ("variables", name, "text", "repeat", index, "value"), repeat.value, plain)


def _announce(
    document: Document, key: tuple[str | int, ...], step: Step, workload: WorkloadFile, known: dict[str, bool]
) -> None:
    """Make the values that a request takes known."""
    for name in step.take:
        if workload.users is None:
            raise document.error(
                (*key, "take"), "values and no users", "take where there are `users`, who keep the values"
            )
        if name in workload.variables or name in ("word", "seq", _USER_NUMBER):
            raise document.error((*key, "take", name), name, "a name that no variable has")
        known[name] = False


def _check_step(
    document: Document, key: tuple[str | int, ...], step: Step, workload: WorkloadFile, known: Mapping[str, bool]
) -> None:
    for place, text in templates(step):
        _check(document, (*key, *place), text, known)
    for place, headers in (
        (("headers",), step.headers),
        (("grpc", "metadata"), step.grpc.metadata if step.grpc else {}),
    ):
        for name in headers:
            if workload.users is not None and name.lower() == "cookie":
                raise document.error((*key, *place, name), name, "no cookie: the users keep their own")


def _check(document: Document, key: tuple[Any, ...], text: str, known: Mapping[str, bool]) -> None:
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
        if sign and name in known and not known[name]:
            raise document.error(key, token, f"{{{name}}}: {name} is not a number")
