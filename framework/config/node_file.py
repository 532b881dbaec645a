"""The schema of a node's measurements, ``kind: node-measurement``, version 1, its reading and its writing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from framework.config.checked import Strict, Text, Value, check, refuse
from framework.config.document import read_document
from framework.config.writing import write_rows
from framework.model.documents import decode, encode
from framework.model.node_measurement import NodeMeasurement

KIND = "node-measurement"
NotNegative = Annotated[float, Field(ge=0)]
Rate = Annotated[float, Field(gt=0)]
Cores = Annotated[int, Field(ge=1, le=4096)]


class PointEntry(Strict):
    """One sweep: an application at its knee on so many cores."""

    arm: Literal["default", "tuned"] = "default"
    kind: Literal["requests", "reads", "writes"] = "requests"
    cores: Cores = Field(description="physical cores that the services may use")
    run: Annotated[int, Field(ge=0)] = 0
    knee_rps: Rate | None = Field(description="highest rate that held; null: none did")
    above_rps: Rate | None = Field(None, description="lowest rate above it that did not hold")
    generator_cores: NotNegative = Field(0.0, description="cores of these that the load generator kept busy")
    cpu_s: dict[str, NotNegative] = Field(default_factory=dict, description="service -> CPU seconds per request")
    generator_s: NotNegative | None = Field(None, description="CPU seconds of the load generator per request")
    memory_bytes: dict[str, NotNegative] = Field(default_factory=dict, description="service -> memory after the load")
    received_bytes: NotNegative | None = Field(None, description="per request, of the service that clients call")
    sent_bytes: NotNegative | None = None
    statement: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> PointEntry:
        if self.knee_rps is not None and self.above_rps is not None and self.above_rps <= self.knee_rps:
            raise refuse("above_rps above knee_rps")
        if self.generator_cores >= self.cores:
            raise refuse("generator_cores below cores")
        return self


class NodeFile(Strict):
    """Measurements of one node: sweeps of an application on rising numbers of cores."""

    kind: Literal["node-measurement"]
    version: Literal[1]
    application: Text
    content_hash: str = ""
    testbed: Text
    modelled: bool
    processor: str = ""
    machine_cores: Cores
    warmup_s: NotNegative
    window_s: Rate
    factor: Annotated[float, Field(gt=1)]
    refinements: Annotated[int, Field(ge=0, le=20)]
    seed: Annotated[int, Field(ge=0)]
    limit_ms: Rate = Field(description="of p95")
    kinds: dict[Literal["requests", "reads", "writes"], list[str]] = Field(
        min_length=1, description="kind -> the workload's requests that were sent; empty for all"
    )
    configurations: dict[Literal["default", "tuned"], dict[str, Value]] = Field(
        min_length=1, description="arm -> values that differ from the defaults"
    )
    most_cores: dict[Literal["default", "tuned"], dict[str, Rate]] = Field(
        default_factory=dict, description="arm -> service -> cores that it can use, however many there are"
    )
    operations: Rate = Field(1.0, description="requests of a need in one of the load")
    closed_loop: bool = Field(False, description="the load generator sends as fast as replies come")
    study: str = Field("", description="the study whose best configuration is the tuned one")
    at: str = ""
    points: list[PointEntry] = Field(default_factory=list, max_length=10_000)


def load_node(path: Path) -> NodeMeasurement:
    """Read a node's measurements.  Raises FileError."""
    document = read_document(path)
    check(document, NodeFile)
    data: dict[str, Any] = {key: value for key, value in document.data.items() if key not in ("kind", "version")}
    return decode(NodeMeasurement, data)


def check_kind(path: Path) -> None:
    """Check that a file is of this kind, whatever else is wrong with it.  Raises FileError."""
    document = read_document(path)
    data: object = document.data  # of any file
    kind = data.get("kind") if isinstance(data, dict) else "no keys"
    if kind != KIND:
        raise document.error(("kind",), kind, f"{KIND!r}, of a file that is measured anew")


def write_node(node: NodeMeasurement, path: Path) -> Path:
    """Write a node's measurements as JSON, one sweep per line; the file is whole at any time.  Raises InputError."""
    return write_rows(path, {"kind": KIND, "version": 1, **encode(node)}, "points")
