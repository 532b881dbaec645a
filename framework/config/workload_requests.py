"""The schema of a request in ``workload.yaml``: of the mix, or a step of the users' log-in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from framework.config.checked import LinePattern, Pattern, Strict, Text, refuse

_SET_BY_GENERATOR = ("traceparent", "tracestate", "content-length", "transfer-encoding", "connection")
_OF_EVERY_CALL = ("te", "content-type")
NAME = "^[a-z][a-z0-9_]*$"
"""Names of variables and of values that replies deliver."""
JSON_PATH = r"^\$(\.[A-Za-z_][A-Za-z0-9_-]*|\['[^']+'\]|\[-?[0-9]{1,9}\])*$"
"""The part of JSONPath (RFC 9535) that names exactly one value: members and elements, negative ones from the end."""
METHOD = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*/[A-Za-z_][A-Za-z0-9_]*$"
_HEADER = r"^[A-Za-z0-9!#$%&'*+.^_|~-]+$"

Code = Literal[
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
]  # fmt: skip
"""Status codes of gRPC by their numbers (grpc/grpc, doc/statuscodes.md)."""


def _own(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_|~-]+", name) or re.search(r"[\r\n\x00]", value):
            raise refuse(f"valid HTTP headers, not {name!r}")
        if name.lower() in _SET_BY_GENERATOR:
            raise refuse(f"other headers than {name}, which the generator sets itself")
    return headers


def _metadata(metadata: dict[str, str]) -> dict[str, str]:
    for name in metadata:
        reserved = name.startswith("grpc-") or name.endswith("-bin") or name in _OF_EVERY_CALL
        if reserved or not re.fullmatch(r"[a-z0-9_.-]+", name):
            raise refuse(
                f"names of small letters, digits, - _ .; not grpc-..., ...-bin, te, content-type: not {name!r}"
            )
    return _own(metadata)


def _json(message: dict[str, Any]) -> dict[str, Any]:
    stack: list[Any] = [message]
    while stack:
        value = stack.pop()
        if isinstance(value, float) and not math.isfinite(value):
            raise refuse("finite numbers; write .inf and .nan as the texts Infinity and NaN")
        stack += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return message


Headers = Annotated[dict[str, str], AfterValidator(_own)]


class Expect(Strict):
    """A good reply; any status of 2xx where nothing is said, OK for gRPC."""

    status: int | None = Field(None, ge=200, le=599)
    body: LinePattern | None = None
    min_items: int | None = Field(None, ge=0)
    code: Code | None = None


class Take(Strict):
    """A value that a reply delivers to its user: one of a path into JSON, a regular expression, a header, a cookie."""

    json_path: str | None = Field(None, alias="json", pattern=JSON_PATH)
    regex: Pattern | None = None
    header: str | None = Field(None, pattern=_HEADER)
    cookie: str | None = Field(None, pattern=_HEADER)

    @model_validator(mode="after")
    def _exactly_one(self) -> Take:
        if len(self.model_fields_set) != 1 or all(getattr(self, name) is None for name in self.model_fields_set):
            raise refuse("exactly one of json, regex, header, cookie")
        return self


class Call(Strict):
    """A unary call of gRPC; every text in ``message`` (protobuf's JSON form) may have placeholders."""

    method: str = Field(pattern=METHOD)
    message: Annotated[dict[str, Any], AfterValidator(_json)] = Field(default_factory=dict)
    metadata: Annotated[dict[str, str], AfterValidator(_metadata)] = Field(default_factory=dict)


class Step(Strict):
    """One request: a method, a path and a body, or a call of gRPC."""

    name: Text
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    path: str | None = Field(None, pattern=r"^/[^?#]*$")
    query: dict[str, str] = Field(default_factory=dict)
    form: dict[str, str] | None = None
    body: str | None = None
    body_file: Text | None = None
    headers: Headers = Field(default_factory=dict)
    grpc: Call | None = None
    expect: Expect | None = None
    take: dict[Annotated[str, Field(pattern=NAME)], Take] = Field(default_factory=dict)
    follow: bool | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Step:
        if self.grpc is not None:
            return self._call()
        if self.path is None:
            raise refuse("the key 'path', or 'grpc'")
        if self.form is not None and self.body is not None:
            raise refuse("form or body, not both")
        if self.body_file is not None and (self.form is not None or self.body is not None):
            raise refuse("form, body or body_file: only one of them")
        if self.expect is not None and self.expect.code is not None:
            raise refuse("expect.code only with grpc")
        return self

    def _call(self) -> Step:
        others = {"method", "path", "query", "form", "body", "body_file", "headers", "follow"} & self.model_fields_set
        if others:
            raise refuse(f"grpc without {', '.join(sorted(others))} (headers are grpc.metadata)")
        if self.expect is not None and (self.expect.status is not None or self.expect.min_items is not None):
            raise refuse("expect.code and expect.body with grpc, not status and min_items")
        return self


class Request(Step):
    """One kind of request of the mix."""

    weight: float = Field(gt=0)


def templates(request: Step) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the key path and the text of everything in a request that may have placeholders."""
    if request.path is not None:
        yield ("path",), request.path
    if request.body is not None:
        yield ("body",), request.body
    for group in ("query", "form", "headers"):
        for name, text in (getattr(request, group) or {}).items():
            yield (group, name), text
    if request.grpc is not None:
        for name, text in request.grpc.metadata.items():
            yield ("grpc", "metadata", name), text
        yield from _texts(("grpc", "message"), request.grpc.message)


def _texts(key: tuple[str | int, ...], value: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _texts((*key, name), member)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _texts((*key, index), element)
