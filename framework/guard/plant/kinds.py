"""Kinds of LC services and of BE jobs on the plant, with what each takes of the machine and suffers from others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """Cores (each with two hyperthreads), last-level cache, memory bandwidth and outgoing link."""

    cores: int = 8
    ways: int = 20
    cache_mb: float = 40.0
    bandwidth_gbs: float = 40.0
    link_mbps: float = 1000.0


@dataclass(frozen=True, slots=True)
class LcKind:
    """An LC service.

    ``service_ms``: mean service time with the whole machine to itself.  ``memory``: share of it that waits for memory
    at the misses it then has.  ``working_mb``: cache that lowers its misses by a factor e.  ``core_gbs``: memory
    traffic of one busy core without any cache.  ``sibling``: factor on its service time beside a busy hyperthread.
    ``reply_kb``: of one request.  ``target_ms``: of p95.  ``peak_load``: utilisation of the cores at a load of 1.
    """

    name: str
    service_ms: float
    memory: float
    working_mb: float
    core_gbs: float
    sibling: float
    reply_kb: float
    target_ms: float
    peak_load: float


@dataclass(frozen=True, slots=True)
class BeKind:
    """A kind of BE job, per core that it has.

    ``core_gbs``: memory traffic without any cache.  ``working_mb``: as of an LC service; infinite: no cache helps.
    ``memory``: share of its time that waits for memory.  ``mbps``: traffic on the link that it would like.
    """

    name: str
    core_gbs: float
    working_mb: float
    memory: float
    mbps: float = 0.0


# search and database: fitted to the thesis's xapian and silo (misfit: a factor of 1.23 and 1.46, root mean square;
# experiments/guard-bench/fit).  hotel: many small services behind one another; not fitted to anything.
LC_KINDS = {
    kind.name: kind
    for kind in (
        LcKind("search", 2.4, 0.43, 26.0, 2.6, 1.39, 18.0, 15.0, 0.90),
        LcKind("database", 0.6, 0.13, 4.3, 4.0, 1.70, 6.0, 4.0, 0.81),
        LcKind("hotel", 5.0, 0.15, 8.0, 1.5, 1.40, 12.0, 32.0, 0.88),
    )
}

BE_KINDS = {
    kind.name: kind
    for kind in (
        BeKind("compute", 0.3, 2.0, 0.05),
        BeKind("stream", 7.0, 1e9, 0.80),
        BeKind("cache", 5.0, 14.0, 0.60),
        BeKind("network", 0.5, 4.0, 0.10, mbps=600.0),
    )
}

MIXES = {
    "compute": ("compute", "compute", "cache"),
    "memory": ("stream", "cache", "compute"),
    "all": ("compute", "stream", "network", "cache"),
}
"""Jobs that wait for each other in turn: when one ends, the next of its kind begins."""
