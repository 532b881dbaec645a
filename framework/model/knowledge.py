"""The knowledge base: the content of a file in ``search_spaces/``, which describes one type of server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from optimizer.space import Condition, Value


@dataclass(frozen=True, slots=True)
class Probe:
    """A way to read one number or word from a running service.

    ``kind`` "command" runs ``command`` inside the container; "tcp" sends ``send`` to ``port`` and reads until
    ``until`` (a regular expression) matches; "http" gets ``path`` from ``port``.  A knowledge base does not need the
    others: "cpus" asks the kernel which CPUs the container's first process may use, "listens" whether it listens on any
    port, and "engine" asks the engine for the resource ``path`` that it gives the container.  ``pattern`` is a regular
    expression with one group; all its matches must agree.  ``multiply`` converts the number to the parameter's unit;
    ``words`` maps matched words to values; ``absent`` is the value when nothing matches (None: an error).
    """

    kind: Literal["command", "tcp", "http", "cpus", "listens", "engine"]
    pattern: str
    command: tuple[str, ...] = ()
    port: int | str | None = None  # text: "{port}", an argument of the service type
    send: str = ""
    until: str = ""
    path: str = ""
    multiply: float = 1.0
    words: Mapping[str, Value] = field(default_factory=dict)
    absent: Value | None = None
    optional: bool = False  # what it needs may be missing in a container


@dataclass(frozen=True, slots=True)
class Argument:
    """Something that the probes of a service type have to know of a service, such as its password.

    It is read from the command's ``flag`` (a template with {value}), from a variable of ``environment``, or from a file
    that a variable of ``files`` names.  ``text``: what stands for it in a probe, where it is not empty.
    """

    default: str = ""
    flag: str = ""
    environment: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    text: str = "{value}"


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to a mounted configuration file.

    Every line that matches ``pattern`` is replaced by ``line``; where none matches, ``line`` is inserted after each
    line that matches ``after`` (or at the end of the file if ``after`` is empty).  ``{value}`` in ``line`` is the
    parameter's value.  Where ``unless`` equals the value, the edit is left out.  ``create``: a missing file is made,
    in the first of the directories of ``path`` and ``also`` that has files.

    With a ``key`` (``framework.config.key_paths``), ``line`` stands at that key of a file of ``format`` instead.

    ``also``: further paths, with ``*`` in their last part; of them and ``path``, those files are changed that have a
    line of either kind.  ``absent``: the value that the server has where a file is there and has no such line.
    """

    path: str
    pattern: str
    line: str
    after: str = ""
    unless: Value | None = None
    create: bool = False
    key: str = ""
    format: str = ""
    also: tuple[str, ...] = ()
    absent: Value | None = None


UNKNOWN_COMMAND = "?"
"""Name of a flag's ``Apply`` where only the image says what it runs by itself."""


@dataclass(frozen=True, slots=True)
class Apply:
    """The way in which a parameter's value reaches the service; ``{value}`` stands for the value.

    environment: variable ``name`` (or several, set alike) = ``template``; with a ``separator`` it is a list of such
    items and others; ``resets``: items put before it, which take back what the server was told earlier.  flag:
    ``template`` split as a shell would and appended to the command.  file: ``edits``.  resource: what compose gives
    the container (``framework.config.resource_names``), or compose key path ``name`` (dots), = ``template``.  live:
    ``template`` is run in the container once it is healthy.  template: nothing but placeholders of the application's
    own templates has the value.

    ``flags``: other spellings of a flag; of a variable, flags that go before it.  Where the command has one of them,
    the value takes its place.  ``words``: value (as text) -> text used instead of it.  ``units``: unit that the server
    accepts ("": none) -> its size in the parameter's unit.
    """

    kind: Literal["environment", "flag", "file", "resource", "live", "template"]
    name: str = ""
    template: str = "{value}"
    edits: tuple[Edit, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    separator: str = ""
    resets: str = ""
    flags: tuple[str, ...] = ()
    number: Literal["decimal", "hexadecimal"] = "decimal"
    units: Mapping[str, float] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """How a value reaches the service, in a few words."""
        if self.kind == "file":
            edit = next(edit for edit in self.edits if "{value}" in edit.line)
            return f"{edit.path}: {edit.key or edit.line.strip()}"
        if self.kind == "environment":
            return f"variable {self.name}" + (f": {self.template}" if self.template != "{value}" else "")
        words = {"flag": f"flag {self.template}", "resource": self.name, "live": f"runs {self.template}"}
        return words.get(self.kind, "placeholders in templates")


@dataclass(frozen=True, slots=True)
class ParameterDefinition:
    """A tunable parameter of a service type, as its file defines it.  Bounds may refer to the host."""

    name: str
    kind: Literal["integer", "real", "categorical", "boolean"]
    default: Value | str  # a string may be an expression such as "host.cores"
    apply: Apply
    read_back: Probe | None  # None: nothing tells; that the value was passed is seen in the container
    role: str
    low: float | str | None = None
    high: float | str | None = None
    step: float | None = None
    choices: tuple[Value, ...] = ()
    special: tuple[float, ...] = ()  # values outside low to high that have a special meaning
    condition: Condition | None = None  # on another parameter of the same type
    derived: str = ""  # text that its value follows from, over parameters of the same type; empty: it is searched
    towards: str = ""  # the type of the services that its connections lead to; empty: all
    scale: Literal["linear", "log"] = "linear"
    unit: str = ""
    versions: str = ""
    weakens: Literal["nothing", "durability", "consistency", "security"] = "nothing"
    risk: Literal["none", "data", "memory"] = "none"  # of another value, or (memory) of one far above the default
    description: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Signs:
    """Signs by which a service of this type is recognised in a compose file.

    ``images``: regular expressions of image names without registry and tag.  ``programs``: base names of programs in
    its command, entry point or health check.  ``variables``: names of variables that it or its image has.  ``ports``:
    ports that it listens on.
    """

    images: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceType:
    """A type of server: one file of the knowledge base."""

    name: str
    description: str
    parameters: tuple[ParameterDefinition, ...]
    ready: Probe | None
    reset: tuple[tuple[str, ...], ...]  # commands, or ("tcp", port, text), that empty a cache in place
    statistics: Mapping[str, Probe]
    measured: bool = True
    tier: Literal["web server", "program", "store"] = "program"  # of an application, for a proposal of its hosts
    speaks_http: bool = True
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    signs: Signs = Signs()
    most_cores: int | str | None = None  # that one can use, or the parameter that says it; None: not known, or all
    builds_on: str = ""  # the type whose parameters and arguments it has too
    command: tuple[str, ...] = ()  # what its images run by themselves
    host: tuple[int, int] | None = None  # cores and MiB that its bounds are resolved for; None: they may be expressions
