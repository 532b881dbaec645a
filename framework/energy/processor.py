"""The processors of a machine as its kernel shows them in /proc/cpuinfo (proc(5))."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from framework.energy.generations import ARM, Generation, by_name, by_numbers, short_name

_CLOCK = re.compile(r"@ ?(\d{1,2}(?:\.\d{1,3})?) ?GHz", re.IGNORECASE)
_CORES = re.compile(r"\b(\d{1,4})-Core\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Processor:
    """Kind and number of processors.

    ``name``: as the kernel shows it.  ``cpus``: hardware threads.  ``packages``: sockets with one; 0 where that is not
    shown.  ``cores``: of all packages, as far as they are shown.  ``mhz``: the clock of the first CPU now.
    ``virtual``: whether this is a virtual machine, as far as the processor says so (it shows any number of sockets and
    cores then).
    """

    name: str
    vendor: str = ""
    family: int = -1
    model: int = -1
    stepping: int = 0
    cpus: int = 1
    packages: int = 0
    cores: int = 1
    mhz: float = 0.0
    virtual: bool = False

    @property
    def short(self) -> str:
        return short_name(self.name)

    @property
    def generation(self) -> Generation | None:
        """Generation by its name, else by its numbers; None where neither is known."""
        return by_name(self.short) or by_numbers(self.vendor, self.family, self.model, self.stepping)

    @property
    def named_ghz(self) -> float | None:
        """Nominal clock that its name tells, as Intel's do ("@ 2.40GHz") [GHz]; None where it does not."""
        told = _CLOCK.search(self.name)
        return float(told[1]) if told else None

    @property
    def named_cores(self) -> int | None:
        """Cores of a package that its name tells, as AMD's do ("64-Core"); None where it does not."""
        told = _CORES.search(self.name)
        return int(told[1]) if told else None


def read_processor(text: str) -> Processor:
    """Return the processor of a /proc/cpuinfo.  Whatever its text, there is at least one hardware thread."""
    threads = list(_threads(text))
    first = threads[0] if threads else {}
    packages = {thread["physical id"] for thread in threads if "physical id" in thread}
    cores = {
        (thread["physical id"], thread["core id"]) for thread in threads if {"physical id", "core id"} <= set(thread)
    }
    arm = "CPU implementer" in first
    return Processor(
        name=first.get("model name", ""),
        vendor=ARM if arm else first.get("vendor_id", ""),
        family=_number(first.get("CPU implementer" if arm else "cpu family", "")),
        model=_number(first.get("CPU part" if arm else "model", "")),
        stepping=max(0, _number(first.get("stepping", "0"))),
        cpus=max(1, len(threads)),
        packages=len(packages),
        cores=len(cores) or max(1, len(threads)),
        mhz=_clock(first.get("cpu MHz", "")),
        virtual="hypervisor" in first.get("flags", "").split(),
    )


def _threads(text: str) -> Iterator[Mapping[str, str]]:
    """Yield the fields of each hardware thread."""
    for block in text.split("\n\n"):
        fields = {}
        for line in block.splitlines():
            key, _, value = line.partition(":")
            fields[key.strip()] = value.strip()
        if "processor" in fields:
            yield fields


def _number(text: str) -> int:
    """Return a decimal or hexadecimal number; -1 for what is none."""
    try:
        return int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        return -1


def _clock(text: str) -> float:
    """Return a clock [MHz]; 0 for what is none."""
    try:
        mhz = float(text)
    except ValueError:
        return 0.0
    return mhz if math.isfinite(mhz) and mhz > 0 else 0.0
