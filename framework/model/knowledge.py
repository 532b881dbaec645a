"""The knowledge base: what a file in ``search_spaces/`` says about one type of server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from optimizer.space import Condition, Value


@dataclass(frozen=True, slots=True)
class Probe:
    """How one number or word is read from a running service.

    ``kind`` "command" runs ``command`` inside the container; "tcp" sends ``send`` to ``port`` and reads until
    ``until`` (a regular expression) matches; "http" gets ``path`` from ``port``; "cpus" asks the kernel which CPUs the
    container's first process may use (a knowledge base does not need it).  ``pattern`` is a regular
    expression with one group; all its matches must agree.  ``multiply`` turns the number found into the parameter's
    unit; ``words`` maps words found to values; ``absent`` is the value when nothing matches (None: an error).
    """

    kind: Literal["command", "tcp", "http", "cpus"]
    pattern: str
    command: tuple[str, ...] = ()
    port: int | None = None
    send: str = ""
    until: str = ""
    path: str = ""
    multiply: float = 1.0
    words: Mapping[str, Value] = field(default_factory=dict)
    absent: Value | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to a mounted configuration file.

    Every line that matches ``pattern`` is replaced by ``line``; where none matches, ``line`` is inserted after each
    line that matches ``after`` (or at the end of the file if ``after`` is empty).  ``{value}`` in ``line`` is the
    parameter's value.  With ``unless`` equal to the value the edit is left out.
    """

    path: str
    pattern: str
    line: str
    after: str = ""
    unless: Value | None = None


@dataclass(frozen=True, slots=True)
class Apply:
    """How a parameter's value reaches the service; ``{value}`` stands for it.

    environment: variable ``name`` = ``template``.  flag: ``template`` split as a shell would and appended to the
    command.  file: ``edits``.  resource: compose key path ``name`` (dots) = ``template``.  live: ``template`` is
    run in the container once it is healthy.
    """

    kind: Literal["environment", "flag", "file", "resource", "live"]
    name: str = ""
    template: str = "{value}"
    edits: tuple[Edit, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)  # value (as text) -> text used instead of it


@dataclass(frozen=True, slots=True)
class ParameterDefinition:
    """One tunable of a service type, as its file in ``search_spaces/`` defines it.  Bounds may refer to the host."""

    name: str
    kind: Literal["integer", "real", "categorical", "boolean"]
    default: Value | str  # a string may be an expression such as "host.cores"
    apply: Apply
    read_back: Probe
    role: str
    low: float | str | None = None
    high: float | str | None = None
    step: float | None = None
    choices: tuple[Value, ...] = ()
    special: tuple[float, ...] = ()  # outside low to high, with a meaning of their own
    condition: Condition | None = None  # on another parameter of the same type
    towards: str = ""  # the type of the services that its connections lead to; empty: all
    scale: Literal["linear", "log"] = "linear"
    unit: str = ""
    versions: str = ""
    weakens: Literal["nothing", "durability", "consistency", "security"] = "nothing"
    description: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class ServiceType:
    """What kind of server a service is: one file of the knowledge base."""

    name: str
    description: str
    parameters: tuple[ParameterDefinition, ...]
    ready: Probe | None
    reset: tuple[tuple[str, ...], ...]  # commands, or ("tcp", port, text), that empty a cache in place
    statistics: Mapping[str, Probe]
    measured: bool = True
