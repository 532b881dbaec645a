"""Cache and memory bandwidth of this machine, as the kernel's resctrl shows and divides them.

Source: Documentation/filesystems/resctrl.rst of Linux.  All differences between machines come from its info directory
and its mount options, and cache ids from its own files: they may have gaps, and need not be those of other tools.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from framework.errors import KnobRefused
from framework.ports.kernel_files import KernelFiles

ROOT = "/sys/fs/resctrl"
LC, BE = "tailor-lc", "tailor-be"
CACHES = (("L3",), ("L3DATA", "L3CODE"))  # the second: data and code are divided apart (mount option cdp)
OK = "ok"

Values = Mapping[str, Mapping[int, int]]
"""Line of a schemata file -> cache id -> mask or limit."""


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The last-level cache.  ``lines``: of a schemata file.  ``mask``: of all ways.

    ``least``: ways that a group must have, from 1.  ``classes``: groups that may have masks at once, the default one
    among them.
    """

    lines: tuple[str, ...]
    mask: int
    least: int
    classes: int

    @property
    def ways(self) -> int:
        return self.mask.bit_count()

    def divide(self, be: int) -> tuple[int, int]:
        """Return the masks of LC and of BE where BE gets this many ways, as far as LC keeps the least.

        BE's are the lowest ones, LC's the others.
        """
        ways = min(max(be, self.least), self.ways - self.least)
        lowest = (1 << ways) - 1
        return self.mask & ~lowest, lowest


@dataclass(frozen=True, slots=True)
class BandwidthInfo:
    """Throttling of memory bandwidth.  ``least``, ``step``: of its values.

    ``unit_bytes``: bytes a second of a value of 1, for each cache id; 0: values are percent.
    """

    least: int
    step: int
    unit_bytes: float

    def value(self, share: float, gbs: float, ids: int) -> int:
        """Return the value for a share of the memory's bandwidth, which is ``gbs`` over all cache ids; 0: not known.

        Steps are rounded down.  Raises KnobRefused.
        """
        if self.unit_bytes and gbs <= 0:
            raise KnobRefused("MB", "a share of the memory's bandwidth needs the whole, which was not measured")
        wanted = share * (gbs * 1e9 / ids / self.unit_bytes if self.unit_bytes else 100)
        least = math.ceil(max(1, self.least) / self.step) * self.step
        return max(least, math.floor(wanted / self.step + 1e-9) * self.step)


class Resctrl:
    """Reads resctrl, and writes schemata of groups; ``files`` journals each change.

    Methods raise KnobRefused; a refused command has the kernel's own words of it.
    """

    def __init__(self, files: KernelFiles, root: str = ROOT) -> None:
        self._files, self.root = files, root

    def missing(self) -> str:
        """Say what lacks for dividing the cache, in one plain sentence; empty where it can be."""
        if not self._files.exists(f"{self.root}/schemata"):
            return self.not_mounted() or "this machine's resctrl only counts, and divides nothing"
        try:
            cache = self.cache()
        except (KnobRefused, ValueError) as error:
            return f"{self.root} cannot be read: {error}"
        if cache is None:
            return "this machine cannot divide its last-level cache"
        if cache.classes < 3:
            return f"this machine has {cache.classes} classes of cache, and LC, BE and the system need 3"
        if cache.ways < 2 * cache.least:
            return f"a cache of {cache.ways} ways cannot be divided into two of at least {cache.least}"
        return ""

    def not_mounted(self) -> str:
        there = self._files.exists(f"{self.root}/info")
        return "" if there else f"this kernel has no resctrl mounted at {self.root}"

    def cache(self) -> CacheInfo | None:
        """Return the last-level cache; None where it cannot be divided."""
        lines = next((names for names in CACHES if self._files.exists(self._info(names[0], "cbm_mask"))), None)
        if lines is None:
            return None
        mask = int(self._files.read(self._info(lines[0], "cbm_mask")), 16)
        least = max(1, self._number(lines[0], "min_cbm_bits"))
        resources = [*lines, *(["MB"] if self.bandwidth() else [])]
        return CacheInfo(lines, mask, least, min(self._number(name, "num_closids") for name in resources))

    def bandwidth(self) -> BandwidthInfo | None:
        """Return how memory bandwidth is throttled; None where it cannot be."""
        if not self._files.exists(self._info("MB", "min_bandwidth")):
            return None
        least, step = self._number("MB", "min_bandwidth"), max(1, self._number("MB", "bandwidth_gran"))
        if "mba_MBps" in self._options():
            return BandwidthInfo(1, 1, 2.0**20)
        # Where the delay is not linear, values are not percent but absolute: 1/8 GB/s (AMD).
        return BandwidthInfo(least, step, 0.0 if self._number("MB", "delay_linear") else 1e9 / 8)

    def events(self) -> Collection[str]:
        """Return what is counted for each group."""
        file = self._info("L3_MON", "mon_features")
        return self._files.read(file).split() if self._files.exists(file) else ()

    def control_groups(self) -> list[str]:
        """Return the directories of all groups with schemata, the root among them."""
        below = [f"{self.root}/{name}" for name in self._files.entries(self.root)]
        return [self.root, *(group for group in below if self._files.exists(f"{group}/tasks"))]

    def tasks(self, group: str) -> set[int]:
        return {int(line) for line in self._files.read(f"{group}/tasks").split()}

    def homes(self, tasks: Collection[int]) -> dict[int, str]:
        """Return task -> its group, a MON group if it is in one; those of the root are left out."""
        homes = dict[int, str]()
        for control in self.control_groups():
            monitors = [f"{control}/mon_groups/{name}" for name in self._files.entries(f"{control}/mon_groups")]
            for group in [*([control] if control != self.root else []), *monitors]:
                homes |= dict.fromkeys(self.tasks(group) & set(tasks), group)
        return homes

    def schemata(self, group: str) -> Values:
        """Return a group's masks and limits."""
        values = dict[str, dict[int, int]]()
        for row in self._files.read(f"{group}/schemata").splitlines():
            name, _, parts = (piece.strip() for piece in row.partition(":"))
            base = 10 if name in ("MB", "SMBA") else 16
            pairs = (part.partition("=") for part in parts.split(";"))
            values[name] = {int(number): int(value, base) for number, _, value in pairs}
        return values

    def set_schemata(self, group: str, values: Values) -> None:
        """Write masks and limits in one command, and read them back."""
        rows = [f"{name}:{shown(name, by_id)}\n" for name, by_id in values.items()]
        file = f"{group}/schemata"
        self.command(lambda: self._files.write(file, "".join(rows)))
        now = self.schemata(group)
        for name, by_id in values.items():
            if now.get(name) != by_id:
                told = shown(name, now.get(name, {}))
                raise KnobRefused(file, f"{name} reads back as {told} after {shown(name, by_id)} was written")

    def command(self, command: Callable[[], None]) -> None:
        """Run a command; its refusal gets what the kernel says of it in last_cmd_status."""
        try:
            command()
        except KnobRefused as error:
            raise KnobRefused(error.knob, self._said(error.reason)) from error

    def _said(self, reason: str) -> str:
        try:
            said = " ".join(self._files.read(f"{self.root}/info/last_cmd_status").split())
        except KnobRefused:
            return reason
        return reason if said in ("", OK) else f"{reason}: {said}"

    def _options(self) -> Collection[str]:
        for line in self._files.read("/proc/mounts").splitlines():
            fields = line.split()
            if fields[1:3] == [self.root, "resctrl"]:
                return fields[3].split(",")
        return ()

    def _number(self, resource: str, name: str) -> int:
        return int(self._files.read(self._info(resource, name)))

    def _info(self, resource: str, name: str) -> str:
        return f"{self.root}/info/{resource}/{name}"


def shown(name: str, by_id: Mapping[int, int]) -> str:
    """Return the values of a line as they are written."""
    return ";".join(f"{number}={value}" if name == "MB" else f"{number}={value:x}" for number, value in by_id.items())


def threads(files: KernelFiles, processes: Iterable[int]) -> set[int]:
    """Return the threads of processes; one that has ended has none."""
    return {int(task) for process in processes for task in files.entries(f"/proc/{process}/task")}
