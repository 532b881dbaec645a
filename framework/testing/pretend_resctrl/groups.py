"""Groups of a pretended resctrl: their classes, tasks, CPUs and counters, and commands that change them."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from framework.errors import InputError
from framework.model.cpus import read_cpus
from framework.testing.pretend_resctrl.machines import CacheMachine
from framework.testing.pretend_resctrl.schemata import (
    BadCommand,
    BandwidthLine,
    CacheLine,
    Line,
    lines_of,
    lowest_run,
    parse,
)
from framework.testing.pretend_resctrl.traffic import GroupShare

MON_GROUPS = "/mon_groups/"
COUNTER = 2**64  # counters of bytes begin again here
WORD = 32  # bits of a word of a CPU mask


@dataclass(slots=True)
class Task:
    """A thread: of which process, since when (ticks after boot), and in which group."""

    process: int
    started: int
    group: str = ""


@dataclass(slots=True)
class Group:
    """``values``: line of schemata -> cache id -> value; none in a MON group, which only counts.

    ``counted``: (cache id, event) -> bytes; None: unavailable.
    """

    cpus: set[int]
    values: dict[str, dict[int, int]] = field(default_factory=dict)
    mode: str = "shareable"
    counted: dict[tuple[int, str], int | None] = field(default_factory=dict)


@dataclass(slots=True)
class Groups:
    """All groups, by their path below the root; the default group's is empty.

    ``limbo``: counters (RMIDs) of removed groups whose cache lines are not evicted yet.
    """

    machine: CacheMachine
    groups: dict[str, Group] = field(init=False)
    tasks: dict[int, Task] = field(init=False, default_factory=dict)
    lines: list[Line] = field(init=False)
    limbo: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.lines = lines_of(self.machine)
        values = {line.name: dict.fromkeys(self.machine.ids, line.first) for line in self.lines}
        every = {cpu for cpus in self.machine.cpus.values() for cpu in cpus}
        self.groups = {"": Group(every, values, counted=self._zero())}

    # ------------------------------------------------------------------ looking

    @property
    def classes(self) -> int:
        """Groups that may have schemata at once, the default one among them."""
        cache, bandwidth = self.machine.cache, self.machine.bandwidth
        least = [cache.classes // (2 if cache.split else 1)] if cache else []
        return min([*least, *([bandwidth.classes] if bandwidth else [])], default=1)

    def control(self) -> Iterator[tuple[str, Group]]:
        """Yield the groups that have schemata."""
        return ((path, group) for path, group in self.groups.items() if MON_GROUPS not in f"/{path}")

    def members(self, path: str) -> list[int]:
        """Return the tasks of a group, and of the MON groups in it."""
        return sorted(
            number
            for number, task in self.tasks.items()
            if task.group == path or (not is_mon(path) and is_mon(task.group) and parent(task.group) == path)
        )

    def share(self, path: str) -> GroupShare:
        values = self.groups[parent(path) if is_mon(path) else path].values
        cache = next((line for line in self.lines if line.name in ("L3", "L3DATA")), None)
        throttle = next((line for line in self.lines if isinstance(line, BandwidthLine)), None)
        limits = values["MB"] if throttle else {}
        share, ceiling = throttle.passes(limits) if throttle else (1.0, float("inf"))
        tasks = frozenset(number for number, task in self.tasks.items() if task.group == path)
        bits = self.machine.cache.bits if self.machine.cache else 0
        return GroupShare(dict(values[cache.name]) if cache else {}, bits, dict(limits), share, ceiling, tasks)

    def count(self, path: str, number: int, event: str) -> int | None:
        """Return a counter: of a group with its MON groups."""
        own = [self.groups[path], *(self.groups[name] for name in self._monitors(path))]
        counts = [group.counted[number, event] for group in own]
        return None if None in counts else sum(count for count in counts if count is not None) % COUNTER

    # ------------------------------------------------------------------ commands

    def make(self, path: str) -> None:
        monitors = is_mon(path)
        above = parent(path)
        if monitors and above in self.groups:
            if not self.machine.rmids:
                raise BadCommand(errno.EPERM)
        elif "/" in path or not self.lines:
            raise BadCommand(errno.EPERM)
        elif sum(1 for _ in self.control()) >= self.classes:
            raise BadCommand(errno.ENOSPC, "Out of CLOSIDs\n")
        if self.machine.rmids and len(self.groups) + self.limbo >= self.machine.rmids:
            raise BadCommand(errno.EBUSY if self.limbo else errno.ENOSPC, "Out of RMIDs\n")
        values = {} if monitors else {line.name: self._fresh(line) for line in self.lines}
        self.groups[path] = Group(set(), values, counted=self._zero())

    def remove(self, path: str) -> None:
        if path not in self.groups or not path:
            raise BadCommand(errno.EPERM)
        to = parent(path) if is_mon(path) else ""
        gone = [path, *self._monitors(path)]
        for task in self.tasks.values():
            if task.group in gone:
                task.group = to
        if not is_mon(path):
            self.groups[""].cpus |= self.groups[path].cpus
        for name in gone:
            if any(count for count in self.groups[name].counted.values()):
                self.limbo += 1
            del self.groups[name]

    def set_values(self, path: str, text: str) -> None:
        if not text.endswith("\n"):
            raise BadCommand(errno.EINVAL)
        group = self.groups[path]

        def taken(line: Line, number: int, value: int) -> None:
            if isinstance(line, CacheLine):
                if self._overlaps(path, number, value, exclusive=True):
                    raise BadCommand(errno.EINVAL, "Overlaps with exclusive group\n")
                if group.mode == "exclusive" and self._overlaps(path, number, value, exclusive=False):
                    raise BadCommand(errno.EINVAL, "Overlaps with other group\n")

        parse(text[:-1], self.lines, group.values, taken)

    def set_mode(self, path: str, text: str) -> None:
        mode = text.removesuffix("\n")
        group = self.groups[path]
        if mode == text or mode not in ("shareable", "exclusive"):
            raise BadCommand(errno.EINVAL, "" if mode == text else "Unknown or unsupported mode\n")
        if mode == "exclusive" != group.mode:
            caches = [line for line in self.lines if isinstance(line, CacheLine)]
            if not caches:
                raise BadCommand(errno.EINVAL, "Cannot be exclusive without CAT/CDP\n")
            for line in caches:
                for number, value in group.values[line.name].items():
                    if self._overlaps(path, number, value, exclusive=False):
                        raise BadCommand(errno.EINVAL, "Schemata overlaps\n")
        group.mode = mode

    def move_tasks(self, path: str, text: str) -> None:
        """Take a list of tasks: those before a wrong one have moved."""
        for part in text.split("\n")[0].split(","):
            word = part.strip()
            if not word.removeprefix("-").isdigit():
                raise BadCommand(errno.EINVAL, f"Task list parsing error pid {word}\n")
            number = int(word)
            if number < 0:
                raise BadCommand(errno.EINVAL, f"Invalid pid {number}\n")
            end = f"Error while processing task {number}\n"
            if number not in self.tasks:
                raise BadCommand(errno.ESRCH, f"No task {number}\n{end}")
            task = self.tasks[number]
            if is_mon(path) and parent(path) != (parent(task.group) if is_mon(task.group) else task.group):
                raise BadCommand(errno.EINVAL, f"Can't move task to different control group\n{end}")
            task.group = path

    def set_cpus(self, path: str, text: str, listed: bool) -> None:
        try:
            cpus = set(read_cpus(text)) if listed else _read_mask(text)
        except (InputError, ValueError) as error:
            raise BadCommand(errno.EINVAL, "Bad CPU list/mask\n") from error
        group, default = self.groups[path], self.groups[""]
        if not cpus <= {cpu for some in self.machine.cpus.values() for cpu in some}:
            raise BadCommand(errno.EINVAL, "Can only assign online CPUs\n")
        dropped, added = group.cpus - cpus, cpus - group.cpus
        if is_mon(path):
            above = self.groups[parent(path)]
            if cpus - above.cpus:
                raise BadCommand(errno.EINVAL, "Can only add CPUs to mongroup that belong to parent\n")
            for name in self._monitors(parent(path)):
                self.groups[name].cpus -= added
        elif path == "" and dropped:
            raise BadCommand(errno.EINVAL, "Can't drop CPUs from default group\n")
        else:
            for other in self.groups.values():
                other.cpus -= added
            default.cpus |= dropped
            for name in self._monitors(path):
                self.groups[name].cpus.clear()
        group.cpus = cpus

    # ------------------------------------------------------------------ inside

    def _monitors(self, path: str) -> list[str]:
        return [name for name in self.groups if is_mon(name) and parent(name) == path and not is_mon(path)]

    def _zero(self) -> dict[tuple[int, str], int | None]:
        return {(number, event): 0 for number in self.machine.ids for event in self.machine.features}

    def _fresh(self, line: Line) -> dict[int, int]:
        """Return a new group's values: of a cache, the lowest bits side by side that no exclusive group has."""
        if not isinstance(line, CacheLine):
            return dict.fromkeys(self.machine.ids, line.first)
        values = {}
        for number in self.machine.ids:
            used = 0
            for _, group in self.control():
                if group.mode == "exclusive":
                    used |= _masks(group.values, number)
            values[number] = lowest_run(line.cache.mask & ~used)
            if values[number].bit_count() < line.cache.least:
                raise BadCommand(errno.ENOSPC, f"No space on {line.name}:{number}\n")
        return values

    def _overlaps(self, path: str, number: int, mask: int, exclusive: bool) -> bool:
        cache = self.machine.cache
        if not exclusive and cache and mask & cache.shareable:
            return True
        return any(
            mask & _masks(group.values, number)
            for name, group in self.control()
            if name != path and (group.mode == "exclusive" or not exclusive)
        )


def is_mon(path: str) -> bool:
    """Return whether a path below the root is that of a MON group."""
    above, slash, name = path.rpartition("/")
    return bool(slash and name) and (above == "mon_groups" or above.endswith("/mon_groups")) and above.count("/") < 2


def parent(path: str) -> str:
    """Return the group with schemata in which a MON group is."""
    return path.rpartition("/")[0].rpartition("/")[0]


def usage(groups: Groups, line: CacheLine) -> str:
    """Return the text of bit_usage."""
    shown = []
    for number in groups.machine.ids:
        shared = exclusive = 0
        for _, group in groups.control():
            if group.mode == "exclusive":
                exclusive |= group.values[line.name][number]
            else:
                shared |= group.values[line.name][number]
        signs = ""
        for bit in reversed(range(line.cache.bits)):
            hardware, software = line.cache.shareable >> bit & 1, shared >> bit & 1
            sign = {(1, 1): "X", (1, 0): "H", (0, 1): "S"}.get((hardware, software))
            signs += sign or ("E" if exclusive >> bit & 1 else "0")
        shown.append(f"{number}={signs}")
    return ";".join(shown) + "\n"


def mask_text(cpus: set[int], most: int) -> str:
    """Return a mask of CPUs as the kernel writes it: words of 32 bits, the highest first."""
    mask = sum(1 << cpu for cpu in cpus)
    words = [mask >> WORD * index & (2**WORD - 1) for index in range(most // WORD + 1)]
    digits = (most % WORD) // 4 + 1
    return ",".join(f"{word:0{digits if index == 0 else 8}x}" for index, word in enumerate(reversed(words)))


def _read_mask(text: str) -> set[int]:
    mask = 0
    for word in text.strip().split(","):
        mask = mask << WORD | int(word, 16)
    return {bit for bit in range(mask.bit_length()) if mask >> bit & 1}


def _masks(values: Mapping[str, Mapping[int, int]], number: int) -> int:
    """Return the ways that a group has of a cache id, for code or data."""
    mask = 0
    for name, by_id in values.items():
        if name != "MB":
            mask |= by_id[number]
    return mask
