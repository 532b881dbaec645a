"""A pretended machine's counters of energy, on virtual time: what runs uses CPU time, and the power follows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from framework.model import Running
from framework.model.energy import (
    CpuTimes,
    EnergyCounters,
    IoBytes,
    Joules,
    Label,
    Level,
    PowerCurve,
    ServiceCounters,
)
from framework.ports.clock import Clock


@dataclass(slots=True)
class Activity:
    """Cores in use, outside and inside the kernel, and bytes per second at each level."""

    user: float = 0.0
    system: float = 0.0
    read: Mapping[Level, float] = field(default_factory=dict)
    written: Mapping[Level, float] = field(default_factory=dict)


@dataclass(slots=True)
class PretendSource:
    """A meter of the power of a curve; implements ``framework.ports.energy.PowerSource``.  ``lose``: numbers of
    readings (from 1) at which it cannot be read.
    """

    curve: PowerCurve
    label: Label = "measured"
    name: str = "pretended"
    lag_s: float = 0.0
    lose: set[int] = field(default_factory=set)
    _numbers: count[int] = field(init=False, default_factory=lambda: count(1))
    _before: tuple[float, CpuTimes] | None = field(init=False, default=None)
    _joules: float = field(init=False, default=0.0)

    def missing(self) -> str:
        return ""

    def about(self) -> str:
        return f"{self.curve.idle_w:g} to {self.curve.full_w:g} W"

    def read(self, at_s: float, cpu: CpuTimes) -> Mapping[str, Joules]:
        if self._before is not None:
            then_s, before = self._before
            self._joules += self.curve.watts(cpu.since(before).utilisation) * (at_s - then_s)
        self._before = at_s, cpu
        if next(self._numbers) in self.lose:
            return {}
        return {"machine": Joules.exactly(self._joules)}

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class PretendMeter:
    """Implements ``framework.ports.energy.EnergyMeter``.

    ``services``: name -> what it does while it is up, and while it is loaded.  ``others``: cores that others use at all
    times.  ``loaded``: whether a load is driven now, which a test sets.  ``speed``: of the machine, by the number of
    control works so far.
    """

    clock: Clock
    curve_: PowerCurve
    services: Mapping[str, tuple[Activity, Activity]] = field(default_factory=dict)
    cpus: int = 4
    others: float = 0.0
    steal: float = 0.0  # CPUs
    power: PretendSource | None = None
    up: bool = False
    loaded: bool = False
    speed: Callable[[int], float] = lambda number: 1.0
    clocks: Callable[[], float | None] = lambda: 2e9
    controls: int = 0
    throttled: list[float] = field(default_factory=list)
    _losses: int = 0
    _before_s: float | None = None
    _cpu: CpuTimes = field(default_factory=CpuTimes)
    _used: dict[str, ServiceCounters] = field(default_factory=dict)
    _device: IoBytes = field(default_factory=IoBytes)

    def __post_init__(self) -> None:
        self.power = self.power or PretendSource(self.curve_)

    @property
    def source(self) -> PretendSource:
        assert self.power is not None
        return self.power

    def missing(self) -> str:
        return self.source.missing()

    def curve(self) -> PowerCurve | None:
        return self.curve_

    def frequency_hz(self) -> float | None:
        return self.clocks()

    def advance(self) -> None:
        """Count the time since the last call with what runs now; to be called before that changes."""
        now_s = self.clock.monotonic()
        seconds = now_s - (self._before_s if self._before_s is not None else now_s)
        self._before_s = now_s
        doing = {name: parts[self.loaded] for name, parts in self.services.items()} if self.up else {}
        user = self.others + sum(activity.user for activity in doing.values())
        system = sum(activity.system for activity in doing.values())
        idle = self.cpus - user - system - self.steal
        now = self._cpu
        self._cpu = CpuTimes(
            user=now.user + user * seconds, system=now.system + system * seconds,
            steal=now.steal + self.steal * seconds, idle=now.idle + idle * seconds,
        )  # fmt: skip
        for name, activity in doing.items():
            used = self._used.get(name, ServiceCounters(0.0, 0.0, dict.fromkeys(("application", "block"), IoBytes())))
            self._used[name] = ServiceCounters(
                used.user_s + activity.user * seconds,
                used.system_s + activity.system * seconds,
                {level: _more(used.io[level], activity, level, seconds) for level in used.io},
            )
            self._device = _more(self._device, activity, "device", seconds)

    def read(self, running: Running | None) -> EnergyCounters:
        self.advance()
        joules = self.source.read(self.clock.monotonic(), self._cpu)
        self._losses += not joules
        services = {name: self._used.get(name, ServiceCounters(0.0, 0.0)) for name in self.services} if running else {}
        return EnergyCounters(
            self.clock.monotonic(), self._cpu, self.cpus, services, {"device": self._device}, (0.0, 0.0), joules,
            self._losses,
        )  # fmt: skip

    def tick(self) -> None:
        """Virtual time does not pass by itself: between two readings there is nothing to count."""

    def throttle(self, running: Running, disk_mbs: float) -> None:
        self.throttled.append(disk_mbs)

    def control_s(self) -> float:
        self.controls += 1
        return 0.1 / self.speed(self.controls)

    def close(self) -> None:
        """Nothing to let go of."""


def _more(bytes_: IoBytes, activity: Activity, level: Level, seconds: float) -> IoBytes:
    return IoBytes(
        bytes_.read + activity.read.get(level, 0.0) * seconds,
        bytes_.written + activity.written.get(level, 0.0) * seconds,
    )
