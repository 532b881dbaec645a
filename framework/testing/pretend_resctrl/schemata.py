"""Lines of a schemata file: how each resource checks and shows its values."""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from framework.testing.pretend_resctrl.machines import CacheMachine, PretendBandwidth, PretendCache

UNLIMITED = 2**32 - 1  # MiB/s, with mba_MBps
SUFFIX = 4  # characters of CODE and DATA
HEX = re.compile(r"\+?(0[xX])?[0-9a-fA-F]+")
DECIMAL = re.compile(r"\+?[0-9]+")


class BadCommand(Exception):
    """A command that the kernel refuses: its errno, and what it says in last_cmd_status."""

    def __init__(self, number: int, status: str = "") -> None:
        super().__init__(os.strerror(number))
        self.number, self.status = number, status


class Line(Protocol):
    """One resource of a schemata file.  ``immediate``: a value counts at once, also if a later line is wrong."""

    @property
    def name(self) -> str: ...

    @property
    def immediate(self) -> bool: ...

    @property
    def first(self) -> int:
        """The value that is no limit."""

    def check(self, text: str) -> int:
        """Return the value that the hardware gets.  Raises BadCommand."""

    def show(self, value: int) -> str: ...

    def size(self, value: int) -> int: ...


@dataclass(frozen=True, slots=True)
class CacheLine:
    """Masks of a cache; ``width``: of the table's columns, 0: they are not aligned."""

    name: str
    cache: PretendCache
    width: int
    immediate: bool = field(default=False, init=False)

    @property
    def first(self) -> int:
        return self.cache.mask

    def check(self, text: str) -> int:
        if not HEX.fullmatch(text):
            raise BadCommand(errno.EINVAL, f"Non-hex character in the mask {text}\n")
        mask = int(text, 16)
        if mask > self.cache.mask or (self.cache.least > 0 and mask == 0):
            raise BadCommand(errno.EINVAL, "Mask out of range\n")
        lowest = lowest_run(mask)
        if not self.cache.sparse and lowest != mask:
            raise BadCommand(errno.EINVAL, f"The mask {mask:x} has non-consecutive 1-bits\n")
        if lowest.bit_count() < self.cache.least:
            raise BadCommand(errno.EINVAL, f"Need at least {self.cache.least} bits in the mask\n")
        return mask

    def show(self, value: int) -> str:
        return f"{value:0{self.width}x}"

    def size(self, value: int) -> int:
        return self.cache.size // self.cache.bits * value.bit_count()


@dataclass(frozen=True, slots=True)
class BandwidthLine:
    """Limits of memory bandwidth."""

    bandwidth: PretendBandwidth
    width: int
    name: str = field(default="MB", init=False)

    @property
    def immediate(self) -> bool:
        return self.bandwidth.megabytes

    @property
    def first(self) -> int:
        return UNLIMITED if self.bandwidth.megabytes else self.bandwidth.most

    def check(self, text: str) -> int:
        if not DECIMAL.fullmatch(text) or int(text) > UNLIMITED:
            raise BadCommand(errno.EINVAL, f"Invalid MB value {text}\n")
        value, own = int(text), self.bandwidth
        if own.megabytes:
            return value
        if not own.least <= value <= own.most:
            raise BadCommand(errno.EINVAL, f"MB value {value} out of range [{own.least},{own.most}]\n")
        return -(-value // own.step) * own.step

    def show(self, value: int) -> str:
        return f"{value:{self.width}d}" if self.width else str(value)

    def size(self, value: int) -> int:
        return value

    def passes(self, limits: Mapping[int, int]) -> tuple[float, float]:
        """Return the share of traffic that limits (cache id -> value) let pass, and its ceiling in bytes a second."""
        total = sum(limits.values())
        if self.bandwidth.megabytes:
            return 1.0, total * 2.0**20
        if self.bandwidth.linear:
            return total / (100 * len(limits)), math.inf
        unlimited = all(value >= self.bandwidth.most for value in limits.values())
        return 1.0, math.inf if unlimited else total * 1e9 / 8


def lowest_run(mask: int) -> int:
    """Return the lowest 1-bits of a mask that stand side by side."""
    lowest = mask & -mask
    return mask & ~(mask + lowest) if mask else 0


def lines_of(machine: CacheMachine) -> list[Line]:
    """Return the lines in the order in which the kernel shows them."""
    lines = list[Line]()
    cache, bandwidth = machine.cache, machine.bandwidth
    width = 0
    if machine.padded:
        shown = [f"{cache.mask:x}"] if cache else []
        width = max(len(text) for text in [*shown, str(bandwidth.most) if bandwidth else ""])
    if bandwidth:
        lines.append(BandwidthLine(bandwidth, width))
    if cache:
        lines += [CacheLine(name, cache, width) for name in (("L3DATA", "L3CODE") if cache.split else ("L3",))]
    return lines


def table(machine: CacheMachine, values: Mapping[str, Mapping[int, int]], sizes: bool = False) -> str:
    """Return the text of schemata, or of size."""
    lines = lines_of(machine)
    longest = max((len(line.name) for line in lines), default=0)
    if machine.cache and machine.cache.can_split:
        longest = len("L3") + SUFFIX
    text = ""
    for line in lines:
        shown = (
            f"{number}={line.size(value) if sizes else line.show(value)}" for number, value in values[line.name].items()
        )
        text += f"{line.name:>{longest}}:{';'.join(shown)}\n"
    return text


def parse(
    text: str, lines: Sequence[Line], values: dict[str, dict[int, int]], taken: Callable[[Line, int, int], None]
) -> None:
    """Take a write to schemata: all of its lines, or none; only limits in MiB/s before the wrong one stay.

    ``values`` is changed.  ``taken``: called with a line, a cache id and a mask; raises BadCommand where the mask may
    not be used.
    """
    staged = dict[tuple[str, int], int]()
    for row in text.split("\n"):
        name, colon, rest = row.partition(":")
        name = name.strip()
        if not colon:
            raise BadCommand(errno.EINVAL, "Missing ':'\n")
        if not rest:
            raise BadCommand(errno.EINVAL, f"Missing '{name}' value\n")
        line = next((line for line in lines if line.name == name), None)
        if line is None:
            raise BadCommand(errno.EINVAL, f"Unknown or unsupported resource name '{name}'\n")
        _parse_row(rest, line, values, staged, taken)
    for (name, number), value in staged.items():
        values[name][number] = value


def _parse_row(
    row: str, line: Line, values: dict[str, dict[int, int]], staged: dict[tuple[str, int], int],
    taken: Callable[[Line, int, int], None],
) -> None:  # fmt: skip
    while row:
        part, _, row = row.partition(";")
        number, equals, value = part.partition("=")
        if not equals or not DECIMAL.fullmatch(number):
            raise BadCommand(errno.EINVAL, "Missing '=' or non-numeric domain\n")
        if int(number) not in values[line.name]:
            raise BadCommand(errno.EINVAL)  # the kernel gives no reason here
        if (line.name, int(number)) in staged:
            raise BadCommand(errno.EINVAL, f"Duplicate domain {int(number)}\n")
        checked = line.check(value.strip())
        taken(line, int(number), checked)
        if line.immediate:
            values[line.name][int(number)] = checked
        else:
            staged[line.name, int(number)] = checked
