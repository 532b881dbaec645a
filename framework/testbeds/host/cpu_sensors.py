"""Sensors of a guard for the CPU: time used, time waited for it, and pressure; read from the kernel's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from framework.errors import KnobRefused
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.cgroups import Group
from framework.testbeds.host.guarded_groups import GuardedGroups
from framework.testbeds.host.kernel_numbers import number_in
from framework.testbeds.host.rates import Rates

PRESSURE = "/proc/pressure/cpu"
PROBED_PID = "/proc/self/schedstat"


@dataclass(slots=True)
class CpuUse:
    """Cores that LC and BE use; implements ``framework.ports.sensor.Sensor``."""

    groups: GuardedGroups
    window_s: float = 0.5
    name: str = field(init=False, default="CPU use")
    gives: tuple[str, ...] = field(init=False, default=("lc_cores", "be_cores"))
    _lc: Rates = field(init=False)
    _be: Rates = field(init=False)

    def __post_init__(self) -> None:
        self._lc, self._be = Rates(self.window_s), Rates(self.window_s)

    def missing(self) -> str:
        return self.groups.missing()

    def read(self, now_s: float) -> Mapping[str, float]:
        """Return the use over the last window.

        LC's is left out where no container of it runs: that is not zero.
        """
        lc = self._lc.growth_of(now_s, self._counters(self.groups.lc_groups()) or None)
        be = self._be.growth_of(now_s, self._counters([self.groups.be]))
        return {name: value for name, value in (("lc_cores", lc), ("be_cores", be)) if value is not None}

    def close(self) -> None:
        """Nothing to let go of."""

    def _counters(self, groups: Sequence[Group]) -> dict[str, float] | None:
        """Return directory -> CPU seconds; None where one that is there cannot be read: a part is not the whole."""
        counters = {}
        for group in groups:
            try:
                counters[group["cpuacct"]] = self.groups.cgroups.cpu_s(group)
            except KnobRefused:
                if self.groups.files.exists(group["cpuacct"]):
                    return None  # else its container has just ended
        return counters


@dataclass(slots=True)
class RunQueueDelay:
    """Seconds a second that threads of LC and BE waited for a CPU (schedstat, second field: nanoseconds)."""

    groups: GuardedGroups
    window_s: float = 2.0
    name: str = field(init=False, default="run-queue delay")
    gives: tuple[str, ...] = field(init=False, default=("lc_delay", "be_delay"))
    _lc: Rates = field(init=False)
    _be: Rates = field(init=False)
    _read_s: float = field(init=False, default=-1e9)
    _last: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._lc, self._be = Rates(self.window_s), Rates(self.window_s)

    def missing(self) -> str:
        if not self.groups.files.exists(PROBED_PID):
            return "this kernel does not count how long threads wait for a CPU (CONFIG_SCHED_INFO)"
        return self.groups.missing()

    def read(self, now_s: float) -> Mapping[str, float]:
        """Read all threads, but only once in a window: an application may have hundreds."""
        if now_s - self._read_s >= self.window_s:
            self._read_s = now_s
            lc = self._lc.growth_of(now_s, self._waited(self.groups.lc_pids) or None)
            be = self._be.growth_of(now_s, self._waited(self.groups.be_pids))
            self._last = {name: value for name, value in (("lc_delay", lc), ("be_delay", be)) if value is not None}
        return self._last

    def close(self) -> None:
        """Nothing to let go of."""

    def _waited(self, pids: Callable[[], Sequence[int]]) -> dict[str, float] | None:
        """Return thread -> seconds; None where processes or threads that are there cannot be read."""
        waited = {}
        files = self.groups.files
        try:
            for pid in pids():
                for thread in _entries(files, f"/proc/{pid}/task"):
                    file = f"/proc/{pid}/task/{thread}/schedstat"
                    try:
                        text = files.read(file)
                    except KnobRefused:
                        if files.exists(file):
                            raise
                        continue  # the thread has just ended
                    waited[thread] = number_in(" ".join(text.split()[1:2]), file) / 1e9
        except KnobRefused:
            return None
        return waited


@dataclass(slots=True)
class Pressure:
    """Share of the time in which some task of the machine waited for a CPU (PSI)."""

    files: KernelFiles
    window_s: float = 0.5
    name: str = field(init=False, default="pressure")
    gives: tuple[str, ...] = field(init=False, default=("pressure",))
    _rates: Rates = field(init=False)

    def __post_init__(self) -> None:
        self._rates = Rates(self.window_s)

    def missing(self) -> str:
        return "" if self.files.exists(PRESSURE) else "this kernel does not count pressure (CONFIG_PSI, psi=1)"

    def read(self, now_s: float) -> Mapping[str, float]:
        try:
            some = next((line for line in self.files.read(PRESSURE).splitlines() if line.startswith("some")), "")
            seconds = number_in(some.rpartition("total=")[2], PRESSURE) / 1e6
        except KnobRefused:
            return {}
        share = self._rates.growth(now_s, {"some": seconds})
        return {} if share is None else {"pressure": share}

    def close(self) -> None:
        """Nothing to let go of."""


def _entries(files: KernelFiles, path: str) -> list[str]:
    try:
        return files.entries(path)
    except KnobRefused:
        return []
