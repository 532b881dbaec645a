"""The answer of a measurement of energy: means over windows with their intervals, per request and per I/O operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from framework.energy.answers import (
    Constants,
    EnergyAnswer,
    Figure,
    IoCost,
    PhaseAnswer,
    RunAnswer,
    ServiceAnswer,
)
from framework.energy.attribution import OTHERS
from framework.energy.formulas import MILLION, cycles, eio
from framework.energy.idle import divided_window, idle_power, source_factors, watts_of
from framework.model.energy import LEVELS, STATES, IoBytes, Level
from framework.model.energy_measurement import EnergyMeasurement, EnergyWindow
from framework.model.estimates import mean

OWN = "own"
SOURCE_SHARES: Mapping[str, float] = {"0": 0.0, "0.7": 0.7}
"""Idle power as a share of the peak, as the source (Akram et al.) takes it for a server of tomorrow and of its day."""

BUSY = 0.05  # utilisation of a baseline above which others run
HERTZ_ASSUMED = 1e9
"""F where the kernel does not tell it: it cancels in joules, and cycles are then not shown."""


def answered(measurement: EnergyMeasurement, level: Level = "device") -> EnergyAnswer:
    """Return what a measurement says; I/Os count at ``level``."""
    constants = _constants(measurement)
    rates = sorted({w.rate_rps for w in measurement.windows if w.phase == "run" and w.rate_rps is not None})
    runs = [_Run(measurement, rate, level, constants) for rate in rates]
    phases = [_phase(measurement, "baseline", None), _phase(measurement, "idle", None)]
    phases += [_phase(measurement, "run", rate) for rate in rates]
    controls = [w.control_s for w in measurement.windows if w.control_s is not None]
    return EnergyAnswer(
        application=measurement.application,
        source=measurement.source,
        label=measurement.label,
        about=measurement.about,
        processor=measurement.processor,
        level=level,
        constants=constants,
        curve=measurement.curve,
        phases=tuple(phase for phase in phases if phase.windows or phase.left_out),
        runs=tuple(run.answer() for run in runs if run.windows),
        control=figure([1e3 * seconds for seconds in controls]) if controls else None,
        notes=tuple(_notes(measurement)),
        tracing=measurement.tracing,
        at=measurement.at,
    )


def figure(values: Sequence[float], source: tuple[float, float] = (1.0, 1.0)) -> Figure:
    """Return the mean with its interval; ``source``: factors of the value that its interval by the source goes to.

    The interval of numbers that cannot be negative ends at 0.
    """
    of = mean(values)
    low = max(0.0, of.low) if min(values) >= 0 else of.low
    return Figure(of.value, low, of.high, of.count, of.value * source[0], of.value * source[1])


def _constants(measurement: EnergyMeasurement) -> Constants:
    curve = measurement.curve
    own = {} if curve is None else {OWN: curve.idle_share}
    shares = {**own, **SOURCE_SHARES}
    why = (
        ""
        if curve is not None
        else "the power of this machine at full load is not known; say it as the power source curve:IDLE,FULL"
    )
    return Constants(None if curve is None else curve.full_w, shares, measurement.cpus, measurement.frequency_hz, why)


def _watts(windows: Sequence[EnergyWindow]) -> Figure | None:
    told = watts_of(windows)
    return figure(told, source_factors(windows)) if told else None


def _phase(measurement: EnergyMeasurement, phase: str, rate: float | None) -> PhaseAnswer:
    every = [w for w in measurement.windows if w.phase == phase and (rate is None or w.rate_rps == rate)]
    windows = [window for window in every if not window.invalid]
    total = math.fsum(window.cpu.total for window in windows)
    shares = {
        state: math.fsum(getattr(window.cpu, state) for window in windows) / total if total else 0.0 for state in STATES
    }
    replies = [window.requests_per_s for window in windows if window.requests_per_s is not None]
    p95 = [window.p95_ms for window in windows if window.p95_ms is not None]
    busy = math.fsum(window.cpu.busy for window in windows)
    own = math.fsum(window.cpu.busy + window.cpu.unused for window in windows)
    return PhaseAnswer(
        phase=phase,  # type: ignore[arg-type]
        rate_rps=rate,
        windows=len(windows),
        left_out=len(every) - len(windows),
        reasons=tuple(dict.fromkeys(reason for window in every for reason in window.invalid)),
        shares=shares,
        utilisation=busy / own if own else 0.0,
        watts=_watts(windows),
        requests_per_s=figure(replies) if replies else None,
        p95_ms=figure(p95) if p95 else None,
    )


@dataclass(frozen=True, slots=True)
class _Used:
    """CPU seconds and I/O of a service, or of the whole machine, in one window."""

    user_s: float
    system_s: float
    unused_s: float
    io: Mapping[Level, IoBytes]


class _Run:
    """The windows of one rate that have replies."""

    def __init__(self, measurement: EnergyMeasurement, rate_rps: float, level: Level, constants: Constants) -> None:
        self._measurement, self._rate, self._level, self._constants = measurement, rate_rps, level, constants
        self.windows = [w for w in measurement.of("run", rate_rps) if w.requests_per_s]
        self._idle_w, self._idle_of = idle_power(measurement)

    def answer(self) -> RunAnswer:
        windows, told = self.windows, [window for window in self.windows if window.whole is not None]
        names = sorted({name for window in windows for name in window.services})
        factors = source_factors(told)

        def per_request(joules: Callable[[EnergyWindow], float]) -> Figure | None:
            values = [joules(window) / _requests(window) for window in told]
            return figure(values, factors) if values else None

        known = self._idle_w is not None
        services = [self._service(name, told, factors) for name in names]
        io = self._io(windows, self._of_machine)
        return RunAnswer(
            rate_rps=self._rate,
            requests_per_s=figure([window.requests_per_s or 0.0 for window in windows]),
            whole_j=per_request(lambda window: window.whole.value if window.whole is not None else 0.0),
            idle_j=per_request(lambda window: self._divided(window)[0]) if known else None,
            application_j=per_request(self._of_application) if known else None,
            idle_of=self._idle_of,
            services=tuple(sorted(services, key=lambda row: -row.share)),
            operations={
                level: sum(self._of_machine(w).io.get(level, IoBytes()).operations for w in windows)
                / sum(map(_requests, windows))
                for level in LEVELS
                if all(level in self._of_machine(window).io for window in windows)
            },
            amplification=self._amplification(),
            io=io,
            no_io="" if io is not None else _without_io(self._level),
        )

    # ------------------------------------------------------------------ joules

    def _divided(self, window: EnergyWindow) -> tuple[float, Mapping[str, float]]:
        """Return a window's idle joules, and the active ones by user."""
        whole = window.whole.value if window.whole is not None else 0.0
        division = divided_window(window, whole, self._idle_w or 0.0)
        return division.idle, division.active

    def _of_application(self, window: EnergyWindow) -> float:
        _, active = self._divided(window)
        own = window.services.keys() - {self._measurement.tracing}
        return math.fsum(joules for name, joules in active.items() if name in own)

    def _service(self, name: str, told: Sequence[EnergyWindow], factors: tuple[float, float]) -> ServiceAnswer:
        windows = [window for window in self.windows if name in window.services]
        requests = sum(map(_requests, windows))
        used = [window.services[name] for window in windows]
        joules = [
            self._divided(window)[1][name] / _requests(window) for window in told if name in window.services
        ] if self._idle_w is not None else []  # fmt: skip
        busy_s = math.fsum(window.cpu.busy for window in windows)
        levels = [level for level in LEVELS if all(level in part.io for part in used)]
        return ServiceAnswer(
            service=name,
            user_us=1e6 * math.fsum(part.user_s for part in used) / requests,
            system_us=1e6 * math.fsum(part.system_s for part in used) / requests,
            share=math.fsum(part.cpu_s for part in used) / busy_s if busy_s else 0.0,
            active_j=figure(joules, factors) if joules else None,
            operations={level: sum(part.io[level].operations for part in used) / requests for level in levels},
            io=self._io(windows, lambda window: self._of_service(window, name)),
        )

    # ------------------------------------------------------------------ I/O

    def _of_machine(self, window: EnergyWindow) -> _Used:
        """Return what the machine used; what is counted by service only is their sum."""
        io = dict(window.io)
        for level in LEVELS:
            parts = [used.io[level] for used in window.services.values() if level in used.io]
            if level not in io and parts and len(parts) == len(window.services):
                io[level] = IoBytes(sum(part.read for part in parts), sum(part.written for part in parts))
        return _Used(window.cpu.of_user, window.cpu.of_kernel, window.cpu.unused, io)

    def _of_service(self, window: EnergyWindow, name: str) -> _Used:
        used = window.services[name]
        share = used.cpu_s / window.cpu.busy if window.cpu.busy else 0.0
        return _Used(used.user_s, used.system_s, share * window.cpu.unused, used.io)

    def _io(self, windows: Sequence[EnergyWindow], used: Callable[[EnergyWindow], _Used]) -> IoCost | None:
        """Return the cost of I/O at the level asked for; None where a window has none."""
        parts = [(window, used(window)) for window in windows]
        if not parts or not all(part.io.get(self._level, IoBytes()).operations > 0 for _, part in parts):
            return None
        counts = [part.io[self._level].operations for _, part in parts]
        clock = self._constants.frequency_hz or HERTZ_ASSUMED
        busy = [cycles(p.user_s + p.system_s, clock) / n for (_, p), n in zip(parts, counts, strict=True)]
        user = [cycles(p.user_s, clock) / n for (_, p), n in zip(parts, counts, strict=True)]
        unused = [cycles(p.unused_s, clock) / n for (_, p), n in zip(parts, counts, strict=True)]
        by_share = {name: self._eio(busy, unused, share, clock) for name, share in self._constants.idle_shares.items()}
        of_user = {name: self._eio(user, unused, share, clock) for name, share in self._constants.idle_shares.items()}
        known = self._constants.peak_w is not None
        return IoCost(
            level=self._level,
            operations_per_s=figure([n / window.seconds for (window, _), n in zip(parts, counts, strict=True)]),
            cpio=figure(busy),
            cpio_idle=figure(unused),
            user_cpio=figure(user),
            eio={name: self._of_curve(values) for name, values in by_share.items()} if known else {},
            emio={name: self._of_curve(values, MILLION) for name, values in by_share.items()} if known else {},
            user_emio={name: self._of_curve(values, MILLION) for name, values in of_user.items()} if known else {},
        )

    def _eio(self, busy: Sequence[float], unused: Sequence[float], share: float, clock: float) -> list[float]:
        peak = self._constants.peak_w
        if peak is None:
            return []
        return [
            eio(cpio, cpio_idle, peak_w=peak, idle_share=share, cores=self._constants.cores, frequency_hz=clock)
            for cpio, cpio_idle in zip(busy, unused, strict=True)
        ]

    def _of_curve(self, values: Sequence[float], times: float = 1.0) -> Figure:
        """Return a figure whose interval by the source is that of P."""
        error = self._measurement.curve.error if self._measurement.curve is not None else 0.0
        return figure([times * value for value in values], (math.exp(-error), math.exp(error)))

    def _amplification(self) -> dict[str, float]:
        """Return the ratios of bytes from level to level."""
        ratios = {}
        steps: tuple[tuple[Level, Level], ...] = (("application", "block"), ("block", "device"))
        for upper, lower in steps:
            both = [self._of_machine(window).io for window in self.windows]
            if all(upper in io and lower in io for io in both):
                above = math.fsum(io[upper].operations for io in both)
                if above > 0:
                    ratios[f"{lower}/{upper}"] = math.fsum(io[lower].operations for io in both) / above
        return ratios


def _requests(window: EnergyWindow) -> float:
    return (window.requests_per_s or 0.0) * window.seconds


def _without_io(level: Level) -> str:
    return f"no I/O was counted at the level {level}, so there are no cycles and joules per I/O; see those per request"


def _notes(measurement: EnergyMeasurement) -> list[str]:
    """Return what a reader has to know to trust the numbers as far as they go."""
    notes = []
    busy = [window.cpu.utilisation for window in measurement.of("baseline")]
    if busy and sum(busy) / len(busy) > BUSY:
        notes.append(
            f"others kept {sum(busy) / len(busy):.0%} of the CPUs busy when nothing of the application ran: their "
            f"energy is in the baseline, and in {OTHERS}"
        )
    if measurement.frequency_hz is None:
        notes.append("the kernel does not tell the clock of the CPUs: cycles are not shown; joules do not need it")
    if not any(window.whole is not None for window in measurement.windows):
        notes.append(f"the power source {measurement.source} told no joules in any window")
    return notes
