"""Planning of machines as data: a need, machine types of a price catalogue, measurements of one node.

Sizes are bytes, rates requests per second, shares between 0 and 1.  A value that a source does not have is None,
never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

HOURS_PER_YEAR = 8_760


@dataclass(frozen=True, slots=True)
class Interval:
    """A number that is known only roughly: ``low`` <= ``likely`` <= ``high``."""

    low: float
    likely: float
    high: float

    @staticmethod
    def exactly(value: float) -> Interval:
        return Interval(value, value, value)

    def times(self, factor: float) -> Interval:
        """Return the interval multiplied by a factor that is not negative."""
        return Interval(self.low * factor, self.likely * factor, self.high * factor)


NONE = Interval(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class OnDisk:
    """Records that stay on disks, of which memory caches a share.

    ``cached``: share of the bytes in memory.  ``hits``: share of the reads that they answer.  ``read_s``: seconds that
    the device takes for a read.
    """

    cached: float
    hits: float
    read_s: float


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Copies of all records on each node's disk: how many are on it at once, and seconds between two."""

    kept: int
    every_s: float


@dataclass(frozen=True, slots=True)
class Current:
    """Machines that somebody runs now.  ``region``, ``purchase``: empty where the catalogue has the type once.

    ``price_per_hour``: of one machine, where another price than the catalogue's is paid.
    """

    machine: str
    nodes: int
    region: str = ""
    purchase: str = ""
    price_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """A stated demand.

    ``stored``: bytes of records, without keys and copies.  ``connection``: bytes of memory that a client's connection
    takes on each node.  ``latency_s``: most seconds of a request inside a node, in the mean.  ``growth``: factor by
    which rates, bytes and clients grow in a year.  ``replicas``: copies of each record.  ``failure_domains``: groups of
    machines that fail at once; with two or more, the others carry the load of one that is lost.  ``load_factor``: share
    of the memory in use that records and keys fill.  ``headroom``: share of every resource that stays free.
    ``current``: what runs now, to be compared with.
    """

    name: str
    reads: Interval
    writes: Interval
    stored: Interval
    record: Interval
    clients: Interval = NONE
    key_bytes: float = 0.0
    connection: Interval = NONE
    latency_s: Interval | None = None
    growth: Interval = field(default_factory=lambda: Interval.exactly(1.0))
    years: int = 0
    replicas: int = 1
    failure_domains: int = 1
    load_factor: float = 1.0
    headroom: float = 0.0
    snapshots: Snapshots | None = None
    on_disk: OnDisk | None = None
    current: Current | None = None


@dataclass(frozen=True, slots=True)
class MachineType:
    """A row of a price catalogue.  ``price_per_hour``: in ``currency``; ``priced_on``: ISO date of the price.

    ``cores``: physical ones.  ``network_gbps``: in each direction.  ``disk_gib``: 0 where the type is known to have no
    disk of its own, None where that is not known.
    """

    name: str
    provider: str
    region: str
    purchase: str
    price_per_hour: float | None
    currency: str
    priced_on: str
    source: str
    processor: str = ""
    vcpus: float | None = None
    cores: float | None = None
    clock_ghz: float | None = None
    ram_gib: float | None = None
    network_gbps: float | None = None
    disk_gib: float | None = None
    disk_mb_s: float | None = None
    iops: float | None = None

    def busy_cores(self) -> float | None:
        """Return the physical cores; where only hardware threads are known, half of them (two threads a core)."""
        if self.cores is not None:
            return self.cores
        return None if self.vcpus is None else self.vcpus / 2


@dataclass(frozen=True, slots=True)
class MachinePrice:
    """The price of a machine type by what its services can use of it; ``price_per_hour``: in ``currency``."""

    name: str
    cores: float
    ram_gib: float
    price_per_hour: float
    currency: str


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """Throughput of one node on so many physical cores.

    ``spread``: standard error of the throughput, in requests/s; 0 where it is not known.
    """

    cores: float
    throughput_rps: float
    spread: float = 0.0
