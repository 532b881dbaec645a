"""Measurements of an application's energy: windows without it, with it idle, and with it under load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework.model.energy import CpuTimes, IoBytes, Joules, Label, Level, Phase, PowerCurve, ServiceCounters

PHASES: tuple[Phase, ...] = ("baseline", "idle", "run")
WINDOW_S, WARMUP_S, ROUNDS = 30.0, 10.0, 10
QUICK_ENERGY: Mapping[str, Any] = {"window_s": 10.0, "warmup_s": 3.0, "rounds": 3}
"""Quick measurements: a first look of a few minutes."""

SHARES_OF_RATE = (1.0,)
"""Rates that are measured by default, as shares of the application's own."""


@dataclass(frozen=True, slots=True)
class EnergyWindow:
    """Use of a machine, and of an application's services, in one window.

    ``seconds``: of the clock.  ``cpu``: seconds of all CPUs by state.  ``services``: name -> CPU time and I/O; empty
    in a baseline.  ``io``: of the whole machine.  ``joules``: zone -> energy; empty where the source lost count.
    ``whole``: of the machine, from those zones.  ``rate_rps``: asked for; ``requests_per_s``: good replies.
    ``generator_s``, ``tailor_s``: CPU seconds of the load generator and of Tailor itself.  ``control_s``: CPU seconds
    that a fixed piece of work took right before.  ``invalid``: why it does not count; empty where it does.
    """

    phase: Phase
    round: int
    seconds: float
    cpus: int
    cpu: CpuTimes
    services: Mapping[str, ServiceCounters] = field(default_factory=dict)
    io: Mapping[Level, IoBytes] = field(default_factory=dict)
    network: tuple[float, ...] = ()
    joules: Mapping[str, Joules] = field(default_factory=dict)
    whole: Joules | None = None
    rate_rps: float | None = None
    requests_per_s: float | None = None
    p95_ms: float | None = None
    generator_s: float | None = None
    tailor_s: float | None = None
    control_s: float | None = None
    invalid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EnergyMeasurement:
    """Windows of one application and their conditions.

    ``source``, ``label``, ``about``: the power source, where its joules come from, and what they rest on.  ``curve``:
    power of the machine by its utilisation, as far as it is known; P and IP are taken from it.  ``frequency_hz``: F;
    None where the kernel does not tell it.  ``traced``: whether the load was traced.  ``configuration``: values that
    differ from the defaults.  ``cores``: physical ones that the services could use; 0: all.
    ``disk_mbs``: that each service could read from and write to each disk, in megabytes a second; 0: not limited.
    ``limits``: on disturbance, as the request set them.  ``lag_s``: that the newest reading of the source may be old.
    ``tracing``: the service that takes the traces, no part of the application; empty where there is none.
    """

    application: str
    content_hash: str
    testbed: str
    processor: str
    cpus: int
    source: str
    label: Label
    about: str
    warmup_s: float
    window_s: float
    rounds: int
    rates_rps: tuple[float, ...]
    phases: tuple[Phase, ...]
    seed: int
    curve: PowerCurve | None = None
    frequency_hz: float | None = None
    traced: bool = True
    configuration: Mapping[str, Any] = field(default_factory=dict)
    cores: int = 0
    disk_mbs: float = 0.0
    limits: Mapping[str, float] = field(default_factory=dict)
    lag_s: float = 0.0
    study: str = ""
    tracing: str = ""
    at: str = ""
    windows: tuple[EnergyWindow, ...] = ()

    def of(self, phase: Phase, rate_rps: float | None = None) -> tuple[EnergyWindow, ...]:
        """Return the windows of a phase that count; of one rate, where it is given."""
        return tuple(
            window
            for window in self.windows
            if window.phase == phase and not window.invalid and (rate_rps is None or window.rate_rps == rate_rps)
        )


@dataclass(frozen=True, slots=True)
class EnergyRequest:
    """A request to measure an application's energy.

    ``rates_rps``: empty for the application's own rate.  ``cores``: physical cores that the services may use, as on a
    machine of that size; 0: all.  ``disk_mbs``: limit of each service on each disk, as of a slower one; 0: none.
    ``study``: whose best configuration is measured instead of the default.  ``power``: a power source, "auto" for the
    best that works here.  ``window_s``, ``warmup_s``, ``rounds``: None for defaults, or those of quick measurements.
    """

    application: Path
    rates_rps: tuple[float, ...] = ()
    phases: tuple[Phase, ...] = PHASES
    cores: int = 0
    disk_mbs: float = 0.0
    study: str = ""
    power: str = "auto"
    warmup_s: float | None = None
    window_s: float | None = None
    rounds: int | None = None
    seed: int = 1
    limits: Mapping[str, float] = field(default_factory=dict)
    testbed: str = "auto"
    trace: bool = False
    quick: bool = False
