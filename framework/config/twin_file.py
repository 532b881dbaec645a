"""The schema of ``twin.json``, version 1, its reading and its writing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from framework.config.checked import Name, Strict, Text, check, refuse
from framework.config.document import read_document
from framework.config.reading import read_bytes
from framework.model.documents import decode, encode
from framework.model.twin import Twin

TWIN_FILE = "twin.json"

NotNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Exponent = Annotated[float, Field(ge=-3, le=3)]


class CallEntry(Strict):
    """A call of an operation."""

    service: Name
    operation: Text
    probability: Fraction = 1.0
    mode: Literal["wait", "parallel", "spawn"] = "wait"
    times: NotNegative = 1.0
    loop: bool = False
    miss: str = ""


class OperationEntry(Strict):
    """The work of a service for one kind of call."""

    service: Name
    operation: Text
    pieces_us: list[NotNegative]
    spread: NotNegative
    calls: list[CallEntry] = Field(default_factory=list)

    @model_validator(mode="after")
    def _pieces(self) -> OperationEntry:
        if len(self.pieces_us) != len(self.calls) + 1:
            raise refuse("one more of pieces_us than of calls")
        return self


class CacheEntry(Strict):
    """The content of a cache."""

    items: Annotated[int, Field(ge=1, le=50_000_000)]
    item_kib: Annotated[float, Field(gt=0)]
    exponent: Annotated[float, Field(ge=0, le=3)]


class ServiceEntry(Strict):
    """A service of the model."""

    name: Name
    host: Name
    cpu_share: Fraction = 1.0
    gc_share: Fraction = 0.0
    traced: bool = True
    cache: CacheEntry | None = None
    cache_ratio: Fraction = 0.0
    io_share: Fraction = 0.0
    background_us: NotNegative = 0.0
    queue: Annotated[int, Field(ge=0)] = 0
    quota: NotNegative = 0.0
    pressure: dict[str, NotNegative] = Field(default_factory=dict)
    sensitivity: dict[str, NotNegative] = Field(default_factory=dict)


class EdgeEntry(Strict):
    """Calls between two services."""

    caller: Name
    callee: Name
    way_us: NotNegative = 0.0
    setup_us: NotNegative = 0.0
    fresh: Fraction = 0.0
    timeout_ms: NotNegative = 0.0
    retries: Annotated[int, Field(ge=0, le=10)] = 0


class HostEntry(Strict):
    """Hosts and places of the services."""

    name: Name
    cores: Annotated[int, Field(ge=1, le=4096)]
    switching: NotNegative = 0.0
    sharing: NotNegative = 0.0
    others: NotNegative = 0.0
    memory_mib: Annotated[int, Field(ge=64)] = 4096
    nodes: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _nodes(self) -> HostEntry:
        if self.nodes > self.cores:
            raise refuse(f"nodes: 1 to {self.cores}, a core for each")
        return self


class TwinFile(Strict):
    """``twin.json``: the queueing model of an application."""

    kind: Literal["twin"]
    version: Literal[1]
    application: Text
    classes: dict[str, Fraction] = Field(min_length=1, description="'service operation' -> share of the requests")
    operations: list[OperationEntry] = Field(min_length=1)
    services: list[ServiceEntry] = Field(min_length=1)
    edges: list[EdgeEntry] = Field(default_factory=list)
    hosts: list[HostEntry] = Field(min_length=1)
    network_us: NotNegative = 0.0
    effects: dict[str, dict[str, Exponent]] = Field(default_factory=dict, description="type -> parameter -> exponent")
    run_spread: NotNegative = 0.0
    fit: dict[str, float] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_lead_somewhere(self) -> TwinFile:
        hosts, services = {host.name for host in self.hosts}, {service.name for service in self.services}
        operations = {(operation.service, operation.operation) for operation in self.operations}
        edges = {(edge.caller, edge.callee) for edge in self.edges}
        for service in self.services:
            if service.host not in hosts:
                raise refuse(f"one of hosts as the host of {service.name}: {', '.join(sorted(hosts))}")
        for operation in self.operations:
            if operation.service not in services:
                raise refuse(f"an entry in services for {operation.service}")
            for call in operation.calls:
                if (call.service, call.operation) not in operations:
                    raise refuse(f"an entry in operations for {call.service} {call.operation}")
                if (operation.service, call.service) not in edges:
                    raise refuse(f"an entry in edges from {operation.service} to {call.service}")
        for name in self.classes:
            if tuple(name.split(" ", 1)) not in operations:
                raise refuse(f"an entry in operations for the class {name}")
        return self


def twin_path(directory: Path) -> Path:
    """Return the path of the twin of the application in ``directory``; an application may have none."""
    return directory / TWIN_FILE


def twin_digest(directory: Path) -> str:
    """Return the first 16 hex digits of the SHA-256 of an application's twin.  Raises FileError."""
    return hashlib.sha256(read_bytes(twin_path(directory))).hexdigest()[:16]


def load_twin(path: Path) -> Twin:
    """Read a twin.  Raises FileError."""
    document = read_document(path)
    check(document, TwinFile)
    data: dict[str, Any] = {key: value for key, value in document.data.items() if key not in ("kind", "version")}
    return decode(Twin, data)


def twin_text(twin: Twin) -> str:
    """Write a twin as JSON, one entry of a list per line, so that a diff can be read."""
    content = {"kind": "twin", "version": 1, **encode(twin)}
    parts = []
    for key, value in content.items():
        if isinstance(value, list):
            rows = ",\n  ".join(json.dumps(entry) for entry in value)
            parts.append(f"{json.dumps(key)}: [\n  {rows}\n ]" if value else f"{json.dumps(key)}: []")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"
