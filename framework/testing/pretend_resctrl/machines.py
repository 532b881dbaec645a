"""Machines whose caches and memory bandwidth resctrl divides: what the kernel finds out about each from its CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

FEATURES = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")


@dataclass(frozen=True, slots=True)
class PretendCache:
    """The last-level cache: of each cache id, ``size`` bytes in ``bits`` ways.

    ``least``: bits that a mask must have side by side (min_cbm_bits).  ``sparse``: masks may have holes.
    ``shareable``: bits that devices use too.  ``classes``: num_closids, without code and data apart.  ``split``: the
    mount option cdp.  ``can_split``: the CPU has it, which widens the table's first column.
    """

    bits: int
    size: int
    classes: int = 16
    least: int = 1
    sparse: bool = False
    shareable: int = 0
    split: bool = False
    can_split: bool = True

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1


@dataclass(frozen=True, slots=True)
class PretendBandwidth:
    """Throttling of memory bandwidth.  ``least``, ``step``, ``most``: in percent on Intel, in 1/8 GB/s on AMD.

    ``linear``: delay_linear.  ``megabytes``: the mount option mba_MBps, with which values are MiB/s.
    """

    least: int = 10
    step: int = 10
    most: int = 100
    classes: int = 8
    linear: bool = True
    megabytes: bool = False


@dataclass(frozen=True, slots=True)
class CacheMachine:
    """``cpus``: cache id -> CPUs; ids may have gaps.  ``rmids``: num_rmids; 0: nothing is monitored.

    ``padded``: values are aligned in columns, as kernels before 6.14 show them.
    """

    cpus: Mapping[int, frozenset[int]] = field(
        default_factory=lambda: {0: frozenset(range(4)), 1: frozenset(range(4, 8))}
    )
    cache: PretendCache | None = None
    bandwidth: PretendBandwidth | None = None
    rmids: int = 32
    features: tuple[str, ...] = FEATURES
    padded: bool = False

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(sorted(self.cpus))


_GAPPED = {0: frozenset(range(4)), 2: frozenset(range(4, 8))}

INTEL = CacheMachine(
    cache=PretendCache(20, 40 << 20, shareable=0xC0000), bandwidth=PretendBandwidth(), padded=True, rmids=64
)
"""Two sockets of a Xeon with 20 ways, the two highest shared with devices."""

HASWELL = CacheMachine(
    {0: frozenset(range(8))}, PretendCache(20, 40 << 20, classes=4, least=2, can_split=False), padded=True, rmids=16
)
"""One socket, no throttling of bandwidth, masks of at least two bits, four classes."""

AMD = CacheMachine(
    _GAPPED,
    PretendCache(16, 16 << 20, least=0, sparse=True),
    PretendBandwidth(0, 1, 2048, classes=16, linear=False),
)
"""Two core complexes, whose ids have a gap; masks may have holes and be empty."""


def _split(machine: CacheMachine) -> CacheMachine:
    cache = machine.cache
    return machine if cache is None else replace(machine, cache=replace(cache, split=True))


MACHINES: Mapping[str, CacheMachine] = {
    "intel": INTEL,
    "intel-new-kernel": replace(INTEL, padded=False),
    "intel-gapped": replace(INTEL, cpus=_GAPPED),
    "intel-cdp": _split(INTEL),
    "intel-mbps": replace(INTEL, bandwidth=PretendBandwidth(megabytes=True)),
    "intel-narrow": replace(INTEL, cache=PretendCache(11, 11 << 20, shareable=0x600)),
    "intel-unmonitored": replace(INTEL, rmids=0),
    "haswell": HASWELL,
    "amd": AMD,
    "amd-cdp": _split(AMD),
}
"""Machines whose cache can be divided, by name."""
