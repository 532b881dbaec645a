"""The parts of a service type's file that ask a running service: probes, resets, and the arguments that they need."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from framework.config.checked import LinePattern, Pattern, Port, Strict, Text, Value, refuse
from framework.model import Argument, Probe

Variable = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]


def _with_value(template: str) -> str:
    if "{value}" not in template:
        raise refuse("text with {value}")
    return template


def _splittable(template: str) -> str:
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise refuse(f"words as a shell reads them ({error})") from None
    if not words:
        raise refuse("at least one word")
    return template


Template = Annotated[str, AfterValidator(_with_value)]
Words = Annotated[str, AfterValidator(_with_value), AfterValidator(_splittable)]

AnyPort = Port | Annotated[str, Field(pattern=r"^\{[a-z][a-z0-9_]*\}$")]
"""A port, or the argument in braces that has it."""


class Tcp(Strict):
    """Send a text, read until a regular expression matches."""

    port: AnyPort
    send: str = ""
    until: LinePattern
    pattern: Pattern


class Http(Strict):
    """Get a path."""

    port: AnyPort
    path: str = Field(pattern="^/")
    pattern: Pattern


class ProbeEntry(Strict):
    """Reading of a number or word from a running service."""

    command: Annotated[list[Text], Field(min_length=1)] | None = None
    pattern: Pattern | None = None
    tcp: Tcp | None = None
    http: Http | None = None
    multiply: float = 1.0
    words: dict[str, Value] = Field(default_factory=dict)
    absent: Value | None = None
    optional: bool = Field(
        False,
        description="what it needs may be missing in a container (a tool, a page): then the value counts as passed",
    )

    @model_validator(mode="after")
    def _one(self) -> ProbeEntry:
        if sum(form is not None for form in (self.command, self.tcp, self.http)) != 1:
            raise refuse("exactly one of command, tcp, http")
        if (self.command is None) != (self.pattern is None):
            raise refuse("pattern beside command, and inside tcp or http")
        if self.multiply == 0:
            raise refuse("multiply other than 0")
        return self

    def probe(self) -> Probe:
        common: dict[str, Any] = {
            "multiply": self.multiply,
            "words": dict(self.words),
            "absent": self.absent,
            "optional": self.optional,
        }
        if self.tcp is not None:
            tcp = self.tcp
            return Probe("tcp", tcp.pattern, port=tcp.port, send=tcp.send, until=tcp.until, **common)
        if self.http is not None:
            return Probe("http", self.http.pattern, port=self.http.port, path=self.http.path, **common)
        return Probe("command", self.pattern or "", command=tuple(self.command or ()), **common)


class SendTcp(Strict):
    """Send a text and wait for any reply."""

    port: AnyPort
    send: Text


class ResetEntry(Strict):
    """One step that empties a cache in place."""

    command: Annotated[list[Text], Field(min_length=1)] | None = None
    tcp: SendTcp | None = None

    @model_validator(mode="after")
    def _one(self) -> ResetEntry:
        if (self.command is None) == (self.tcp is None):
            raise refuse("exactly one of command, tcp")
        return self

    def step(self) -> tuple[str, ...]:
        return ("tcp", str(self.tcp.port), self.tcp.send) if self.tcp is not None else tuple(self.command or ())


class ArgumentEntry(Strict):
    """Something that probes have to know of a service: of its command, its environment or a file, else the default."""

    default: str = ""
    flag: Words | None = Field(None, description="the flag of the command that has it, such as '--port {value}'")
    environment: list[Variable] = Field(default_factory=list, description="variables that have it")
    files: list[Variable] = Field(default_factory=list, description="variables that name a file with it")
    text: Template = Field("{value}", description="what stands for {name} in a probe, where it is not empty")

    def argument(self) -> Argument:
        return Argument(self.default, self.flag or "", tuple(self.environment), tuple(self.files), self.text)
