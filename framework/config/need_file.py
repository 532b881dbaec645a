"""The schema of ``need.yaml``, version 1: the rates, sizes, latency and availability that machines are planned for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from framework.config.amounts import (
    Bytes,
    BytesAmount,
    CountAmount,
    Filled,
    GrowthAmount,
    RateAmount,
    Share,
    Time,
    TimeAmount,
)
from framework.config.checked import Strict, Text, load, refuse, refuse_value
from framework.config.document import read_document
from framework.config.machine_catalogue import Price
from framework.errors import FileError
from framework.model.capacity import NONE, Current, Interval, Need, OnDisk, Snapshots


def _given(value: Any) -> Any:
    """Refuse a key without a value: it is a mistake rather than a wish for the default."""
    if value is None:
        raise refuse("a value, or no such key")
    return value


GIVEN = BeforeValidator(_given)


class _Entry(Strict):
    """A mapping of a need: anything else is refused with its keys."""

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            raise refuse(f"a mapping with the keys {', '.join(cls.model_fields)}")
        return data


class GrowthEntry(_Entry):
    """Growth of rates, bytes and clients over years."""

    per_year: GrowthAmount
    years: int = Field(ge=1, le=30, description="that the plan looks ahead")


class AvailabilityEntry(_Entry):
    """Copies of each record, and groups of machines that fail at once."""

    replicas: int = Field(1, ge=1, le=100, description="copies of each record, the first one included")
    failure_domains: int = Field(
        1, ge=1, le=100, description="groups of machines; with two or more, the others carry the load of a lost one"
    )

    @model_validator(mode="after")
    def _copies(self) -> AvailabilityEntry:
        if self.failure_domains > 1 and self.replicas == 1:
            raise refuse("at least 2 replicas with 2 or more failure_domains: else a lost domain's records are lost")
        return self


class SnapshotsEntry(_Entry):
    """Copies of all records on each node's disk."""

    kept: int = Field(
        2, ge=1, le=1000, description="on the disk at once; the old one goes when the new one is complete"
    )
    every: Time


class DiskEntry(_Entry):
    """Records that stay on disks; memory caches some."""

    cached: Share = Field(description="share of the bytes in memory")
    hits: Filled = Field(description="share of the reads that the cache answers")
    read: Time = Field(description="of the device, for a record")

    @model_validator(mode="after")
    def _order(self) -> DiskEntry:
        if self.hits < self.cached:
            raise refuse("hits of at least the share that is cached: a cache is no worse than records at random")
        return self


class CurrentEntry(_Entry):
    """The machines that run now; the plan says whether they are enough, and what others would cost."""

    machine: Text = Field(description="a machine type of the catalogue")
    nodes: int = Field(ge=1, le=100_000)
    region: str = Field("", description="where the catalogue has the type in several")
    purchase: str = Field("", description="where the catalogue has several purchase options of it")
    price_per_hour: Price | None = Field(None, description="of one machine, where it is not the catalogue's")


class NeedFile(Strict):
    """``need.yaml``: each amount is one value, or an interval of low, likely and high."""

    kind: Literal["need"]
    version: Literal[1]
    name: str = Field("", max_length=200)
    reads: Annotated[RateAmount | None, GIVEN] = None
    writes: Annotated[RateAmount | None, GIVEN] = None
    stored: BytesAmount = Field(description="of records, without keys and copies")
    record: BytesAmount = Field(description="mean size of a record")
    key: Annotated[Bytes | None, GIVEN] = Field(None, description="size of a key")
    clients: Annotated[CountAmount | None, GIVEN] = Field(
        None, description="connections at once; each client is connected to each node"
    )
    connection: Annotated[BytesAmount | None, GIVEN] = Field(
        None, description="memory that a client's connection takes on a node"
    )
    latency: Annotated[TimeAmount | None, GIVEN] = Field(
        None, description="most time of a request inside a node, in the mean"
    )
    growth: Annotated[GrowthEntry | None, GIVEN] = None
    availability: AvailabilityEntry = Field(default_factory=lambda: AvailabilityEntry(replicas=1, failure_domains=1))
    load_factor: Filled = Field(1.0, description="share of the memory in use that records and keys fill")
    headroom: Share = Field(0.0, description="share of CPUs, memory, network and disks that stays free")
    snapshots: Annotated[SnapshotsEntry | None, GIVEN] = None
    disk: Annotated[DiskEntry | None, GIVEN] = Field(
        None, description="where records stay on disks; otherwise memory has all of them"
    )
    current: Annotated[CurrentEntry | None, GIVEN] = Field(None, description="what runs now")

    @model_validator(mode="after")
    def _whole(self) -> NeedFile:
        if self.reads is None and self.writes is None:
            raise refuse("reads, writes or both")
        if (self.connection is None) != (self.clients is None):
            raise refuse("both of the keys 'clients' and 'connection', or neither")
        if self.record.interval().high > self.stored.interval().low:
            raise refuse_value("record", "a record that is no larger than all that is stored, the key 'stored'")
        if self.disk is not None and self.reads is None:
            raise refuse("the key 'reads' where there is 'disk'")
        return self

    def need(self) -> Need:
        """Return the need in bytes, seconds and requests per second."""
        return Need(
            name=self.name,
            reads=_interval(self.reads),
            writes=_interval(self.writes),
            stored=self.stored.interval(),
            record=self.record.interval(),
            clients=_interval(self.clients),
            key_bytes=self.key or 0.0,
            connection=_interval(self.connection),
            latency_s=None if self.latency is None else self.latency.interval(),
            growth=Interval.exactly(1.0) if self.growth is None else self.growth.per_year.interval(),
            years=0 if self.growth is None else self.growth.years,
            replicas=self.availability.replicas,
            failure_domains=self.availability.failure_domains,
            load_factor=self.load_factor,
            headroom=self.headroom,
            snapshots=None if self.snapshots is None else Snapshots(self.snapshots.kept, self.snapshots.every),
            on_disk=None if self.disk is None else OnDisk(self.disk.cached, self.disk.hits, self.disk.read),
            current=None if self.current is None else Current(**self.current.model_dump()),
        )


def _interval(amount: RateAmount | BytesAmount | CountAmount | None) -> Interval:
    return NONE if amount is None else amount.interval()


def error_in_need(path: Path, key: str, value: object, allowed: str) -> FileError:
    """Make the error of a key of a need, with its line.  Raises FileError where the file cannot be read."""
    return read_document(path).error((key,), value, allowed)


def load_need(path: Path) -> Need:
    """Read a need.  Raises FileError."""
    _, file = load(path, NeedFile)
    return file.need()
