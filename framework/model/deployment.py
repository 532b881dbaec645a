"""A deployment, wanted and running, and the machine that it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from framework.model.knowledge import Probe, ServiceType
from optimizer.space import Configuration, Value


@dataclass(frozen=True, slots=True)
class Passed:
    """Text that a container shows where a value was written to it.

    It is an item of the variable ``name``, words of its command, a line of the file ``name``, or, with a ``key``, the
    value at that key of the file, which has ``format``.  ``service``: the one that shows it, where it is another one.
    """

    kind: Literal["environment", "flag", "file", "resource", "live", "template"]
    name: str
    text: str
    key: str = ""
    format: str = ""
    service: str = ""


@dataclass(frozen=True, slots=True)
class Expectation:
    """A parameter that has to read back as ``value`` after the deployment.

    ``probe``: asks the server; None: nothing can.  ``passed``: what the container shows; None: nothing was written.
    """

    service: str
    parameter: str
    value: Value
    probe: Probe | None
    passed: Passed | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """The answer of a server about a parameter.

    ``value``: None where it tells nothing, and then ``reason`` says why.  ``seen``: a value that was written is seen in
    its container.
    """

    value: Value | None
    reason: str
    seen: bool


@dataclass(frozen=True, slots=True)
class Deployment:
    """The application rendered for one configuration and one placement.

    ``documents``: host -> compose document (plain dictionaries).  ``files``: path below the deployment's directory
    (as the documents mount it) -> text.  ``live``: (service, command) to run once healthy.  ``roots``:
    directories whose files the documents may mount, besides ``files``.  ``reached``: services that the load generator
    calls, the entry first.  ``types``: service -> its type, with the service's own arguments.  ``every_volume``: the
    data that repetitions start from are those of all volumes, also of those without a name.  ``hosts``: service -> its
    host, of those that the configuration moves from where application.yaml has them.
    """

    application: str
    project: str
    configuration: Configuration
    documents: Mapping[str, Mapping[str, Any]]
    files: Mapping[str, str]
    expectations: tuple[Expectation, ...] = ()
    live: tuple[tuple[str, tuple[str, ...]], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    fresh: Literal["all", "changed"] = "all"
    roots: tuple[Path, ...] = ()
    reached: tuple[str, ...] = ()
    types: Mapping[str, ServiceType] = field(default_factory=dict)
    every_volume: bool = False
    hosts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Container:
    """The container of one service, as the engine reports it.

    ``restarts``: how often it had restarted when the deployment was ready.  ``others``: further replicas.
    """

    service: str
    id: str
    name: str
    image: str
    image_digest: str
    address: str
    pid: int
    started_at: str
    standin: bool = False
    restarts: int = 0
    others: tuple[Container, ...] = ()

    @property
    def replicas(self) -> tuple[Container, ...]:
        """All containers of the service."""
        return (self, *self.others)


@dataclass(frozen=True, slots=True)
class Running:
    """A deployment that is up and healthy, with every parameter read back.

    ``network``: the network of the entry, which the load generator joins; ``also``: those of the other services that
    it calls.  ``passed``: parameters (service.parameter) that were written and seen in their container, but that no
    server told.
    """

    deployment: Deployment
    network: str
    containers: Mapping[str, Container]
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds: remove, restore, start, healthy, read back
    also: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU counters at one moment; the difference of two gives the usage in between.

    ``memory_bytes``: service -> memory at that moment; without services of which it is not known.
    """

    at_ns: int
    cpu_s: Mapping[str, float]  # service -> CPU seconds since its container started
    host_cpu_s: float
    stolen_s: float
    pressure_cpu_s: float | None  # PSI: some CPU pressure, seconds
    cores: int
    tailor_cpu_s: float
    memory_bytes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine on which a result was measured."""

    hostname: str
    cores: int
    memory_mib: int
    kernel: str
    cpu: str
    engine: str
    compose: str
    python: str
    tailor: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of ``tailor doctor``.  ``needed``: tuning is impossible without it."""

    what: str
    state: Literal["ok", "limited", "missing"]
    found: str
    remedy: str = ""
    needed: bool = False
