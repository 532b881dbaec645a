"""Sensor of a guard for memory traffic: what resctrl counts for each group."""

from __future__ import annotations

from collections.abc import Mapping

from framework.errors import KnobRefused
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.resctrl import BE, LC, ROOT, Resctrl

EVENT = "mbm_total_bytes"
COUNTER = 2**64  # counters begin again here
MOST_GBS = 1e5  # beyond any memory: the counter was set back, not filled

Counts = Mapping[str, int]


class MemoryBandwidth:
    """Differences of the counters of all groups; implements ``framework.ports.sensor.Sensor``.

    LC's and BE's groups are those that ``CacheWays`` makes.  A group that is new, or one of whose counters cannot be
    read ("Unavailable"), gives nothing in this window, and then the whole is not known either.
    """

    name = "memory bandwidth"
    gives = ("bandwidth_gbs", "lc_bandwidth_gbs", "be_bandwidth_gbs")

    def __init__(self, files: KernelFiles, root: str = ROOT) -> None:
        self._files, self._root, self._resctrl = files, root, Resctrl(files, root)
        self._before: dict[str, Counts] = {}
        self._at_s = 0.0

    def missing(self) -> str:
        not_mounted = self._resctrl.not_mounted()
        if not_mounted:
            return not_mounted
        try:
            counted = EVENT in self._resctrl.events()
        except KnobRefused as error:
            return f"{self._root} cannot be read: {error}"
        return "" if counted else "this machine does not count memory traffic"

    def read(self, now_s: float) -> Mapping[str, float]:
        try:
            now = {group: self._counts(group) for group in self._resctrl.control_groups()}
        except KnobRefused:
            now = {}
        rates = {group: self._rate(group, counts, now_s - self._at_s) for group, counts in now.items()}
        self._before = {group: counts for group, counts in now.items() if counts is not None}
        self._at_s = now_s
        known = {group: rate for group, rate in rates.items() if rate is not None}
        readings = {
            name: known[f"{self._root}/{group}"]
            for name, group in (("lc_bandwidth_gbs", LC), ("be_bandwidth_gbs", BE))
            if f"{self._root}/{group}" in known
        }
        if known and len(known) == len(rates):
            readings["bandwidth_gbs"] = sum(known.values())
        return readings

    def close(self) -> None:
        """Nothing is held open."""

    def _counts(self, group: str) -> Counts | None:
        """Return directory of a cache id -> bytes; None where one of them cannot be read."""
        counts = dict[str, int]()
        for name in self._files.entries(f"{group}/mon_data"):
            if name.startswith("mon_L3_"):
                try:
                    counts[name] = int(self._files.read(f"{group}/mon_data/{name}/{EVENT}"))
                except (KnobRefused, ValueError):
                    return None
        return counts or None

    def _rate(self, group: str, counts: Counts | None, seconds: float) -> float | None:
        """Return GB/s since the last reading; None where it cannot be known."""
        before = self._before.get(group)
        if counts is None or before is None or before.keys() != counts.keys() or seconds <= 0:
            return None
        gbs = sum((count - before[name]) % COUNTER for name, count in counts.items()) / seconds / 1e9
        return gbs if gbs <= MOST_GBS else None
