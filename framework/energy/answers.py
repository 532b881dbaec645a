"""Answers about energy: what requests and I/O took, in numbers with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from framework.model.energy import Label, Level, Phase, PowerCurve


@dataclass(frozen=True, slots=True)
class Figure:
    """A number over several windows.

    ``low``, ``high``: 95 % interval of the mean over the windows, infinite with one.  ``source_low``, ``source_high``:
    95 % interval by the power source's own account, which all windows share; equal to the value where it is a meter,
    and where the number has no joules in it.
    """

    value: float
    low: float
    high: float
    count: int
    source_low: float
    source_high: float


@dataclass(frozen=True, slots=True)
class PhaseAnswer:
    """A phase at one rate: shares of the CPUs' time by state, which add up to 1, and the machine's power.

    ``left_out``: windows that do not count; ``reasons``: why, each once.  ``watts``: None where no window has joules.
    """

    phase: Phase
    rate_rps: float | None
    windows: int
    left_out: int
    reasons: tuple[str, ...]
    shares: Mapping[str, float]
    utilisation: float
    watts: Figure | None
    requests_per_s: Figure | None
    p95_ms: Figure | None


@dataclass(frozen=True, slots=True)
class IoCost:
    """Cycles and joules per I/O operation of 512 bytes, at one level.

    ``cpio``, ``cpio_idle``, ``user_cpio`` (of the cycles outside the kernel alone): None where F is not known.
    ``eio``: name of IP's value -> joules; empty where P is not known.  ``emio``: the same of a million operations;
    ``user_emio``: with the time outside the kernel alone.
    """

    level: Level
    operations_per_s: Figure
    cpio: Figure | None
    cpio_idle: Figure | None
    user_cpio: Figure | None
    eio: Mapping[str, Figure]
    emio: Mapping[str, Figure]
    user_emio: Mapping[str, Figure]


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """A service's part of each request: CPU time [us] outside and inside the kernel, joules of the active part.

    ``active_j``: None where the source told no joules.  ``share``: of the machine's active part.  ``operations``:
    level -> I/O operations per request.  ``io``: cycles and joules per operation at the level asked for, with the
    machine's idle cycles by the service's share of the busy ones; None without I/O, and ``no_io`` says why.
    """

    service: str
    user_us: float
    system_us: float
    share: float
    active_j: Figure | None
    operations: Mapping[Level, float]
    io: IoCost | None
    no_io: str


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """An application at one rate.  Joules are per good reply; None where the source told none.

    ``whole_j``: all that the machine took; it is ``idle_j``, what it takes when nothing runs, plus what is above that,
    of which ``application_j`` is the part of the services, without the one that takes traces.  ``idle_of``: the phase
    that says what the machine takes then.  ``others_j``: of the active part what the load generator, Tailor and all
    others have; with the services and ``idle_j`` they are the whole.
    ``operations``: level -> I/O operations per request.  ``amplification``: "block/application", "device/block" ->
    ratio of their bytes.  ``io``: of the services' CPU time, without the one that takes traces, and the machine's I/O
    and idle time; ``machine_io``: of all CPU time, that of the load generator and of others included.  None without I/O
    at the level asked for, and ``no_io`` says why.
    """

    rate_rps: float
    requests_per_s: Figure
    whole_j: Figure | None
    idle_j: Figure | None
    application_j: Figure | None
    idle_of: str
    services: tuple[ServiceAnswer, ...]
    others_j: Mapping[str, Figure]
    operations: Mapping[Level, float]
    amplification: Mapping[str, float]
    io: IoCost | None
    machine_io: IoCost | None
    no_io: str


@dataclass(frozen=True, slots=True)
class Constants:
    """P, IP, N and F that the numbers per I/O were computed with; None where one is not known, and why.

    ``peak_of``: what says P and IP; ``peak_error``: half-width of P's 95 % interval, as a logarithm.  ``idle_shares``:
    name -> IP, with the values 0 and 0.7 of Akram et al. beside the machine's own.
    """

    peak_w: float | None
    idle_shares: Mapping[str, float]
    cores: int
    frequency_hz: float | None
    peak_of: str = ""
    peak_error: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class EnergyAnswer:
    """Answer of a measurement.

    ``label``: where its joules come from; ``scope``: of what they are.  ``control``: CPU time of the control work [ms].
    """

    application: str
    source: str
    label: Label
    scope: str
    about: str
    processor: str
    level: Level
    constants: Constants
    curve: PowerCurve | None
    phases: tuple[PhaseAnswer, ...]
    runs: tuple[RunAnswer, ...]
    control: Figure | None
    notes: tuple[str, ...]
    tracing: str = ""
    at: str = ""
