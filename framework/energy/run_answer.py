"""The answer about an application at one rate: joules per request, cycles and joules per I/O operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from framework.energy.answers import Constants, Figure, IoCost, RunAnswer, ServiceAnswer
from framework.energy.attribution import OTHERS
from framework.energy.figures import EXACT, figure, ratio
from framework.energy.formulas import MILLION, cycles, joules_of
from framework.energy.idle import GENERATOR, TAILOR, divided_window, idle_power, source_factors
from framework.model.energy import LEVELS, IoBytes, Level
from framework.model.energy_measurement import EnergyMeasurement, EnergyWindow

NOT_COUNTED = "not counted at this level"
NO_IO = "no I/O"


@dataclass(frozen=True, slots=True)
class _Used:
    """CPU seconds and I/O of services, or of the whole machine, in one window."""

    user_s: float
    system_s: float
    unused_s: float
    io: Mapping[Level, IoBytes]


class RunWindows:
    """The windows of one rate that count and have replies; I/Os count at ``level``."""

    def __init__(self, measurement: EnergyMeasurement, rate_rps: float, level: Level, constants: Constants) -> None:
        self._measurement, self._rate, self._level, self._constants = measurement, rate_rps, level, constants
        self.windows = [window for window in measurement.of("run", rate_rps) if window.requests_per_s]
        self._told = [window for window in self.windows if window.whole is not None]
        self._factors = source_factors(self._told)
        self._idle = idle_power(measurement)

    def answer(self) -> RunAnswer:
        names = sorted({name for window in self.windows for name in window.services})
        services = [self._service(name) for name in names]
        known = self._idle is not None
        apart = (GENERATOR, TAILOR, OTHERS)
        return RunAnswer(
            rate_rps=self._rate,
            requests_per_s=figure([window.requests_per_s or 0.0 for window in self.windows]),
            whole_j=self._per_request(_whole),
            idle_j=self._per_request(lambda window: self._divided(window)[0]) if known else None,
            application_j=self._per_request(self._of_application) if known else None,
            idle_of="" if self._idle is None else self._idle.of,
            services=tuple(sorted(services, key=lambda row: -row.share)),
            others_j={name: part for name in apart if known and (part := self._active(name)) is not None},
            operations=self._operations(self._of_machine),
            amplification=self._amplification(),
            io=self._io(self._of_services),
            machine_io=self._io(self._of_machine),
            no_io=self._no_io(self._of_machine),
        )

    # ------------------------------------------------------------------ joules

    def _per_request(self, joules: Callable[[EnergyWindow], float]) -> Figure | None:
        values = [joules(window) / _requests(window) for window in self._told]
        return figure(values, self._factors) if values else None

    def _divided(self, window: EnergyWindow) -> tuple[float, Mapping[str, float]]:
        """Return a window's idle joules, and the active ones by user."""
        idle_w = 0.0 if self._idle is None else self._idle.watts(window.round)
        division = divided_window(window, _whole(window), idle_w)
        return division.idle, division.active

    def _active(self, name: str) -> Figure | None:
        """Return a user's part of the active joules; None where no window tells it."""
        if not all(name in self._divided(window)[1] for window in self._told):
            return None
        return self._per_request(lambda window: self._divided(window)[1][name])

    def _of_application(self, window: EnergyWindow) -> float:
        _, active = self._divided(window)
        return math.fsum(active[name] for name in self._own(window))

    def _own(self, window: EnergyWindow) -> set[str]:
        """Return the application's services: all but the one that takes traces."""
        return set(window.services) - {self._measurement.tracing}

    def _service(self, name: str) -> ServiceAnswer:
        windows = [window for window in self.windows if name in window.services]
        requests = math.fsum(map(_requests, windows))
        used = [window.services[name] for window in windows]
        busy_s = math.fsum(window.cpu.busy for window in windows)

        def of_service(window: EnergyWindow) -> _Used:
            part = window.services[name]
            share = part.cpu_s / window.cpu.busy if window.cpu.busy else 0.0
            return _Used(part.user_s, part.system_s, share * window.cpu.unused, part.io)

        return ServiceAnswer(
            service=name,
            user_us=1e6 * math.fsum(part.user_s for part in used) / requests,
            system_us=1e6 * math.fsum(part.system_s for part in used) / requests,
            share=math.fsum(part.cpu_s for part in used) / busy_s if busy_s else 0.0,
            active_j=self._active(name) if self._idle is not None else None,
            operations=self._operations(of_service, windows),
            io=self._io(of_service, windows),
            no_io=self._no_io(of_service, windows),
        )

    # ------------------------------------------------------------------ I/O

    def _of_machine(self, window: EnergyWindow) -> _Used:
        return _Used(window.cpu.of_user, window.cpu.of_kernel, window.cpu.unused, self._io_of(window))

    def _of_services(self, window: EnergyWindow) -> _Used:
        own = [window.services[name] for name in self._own(window)]
        user_s, system_s = math.fsum(part.user_s for part in own), math.fsum(part.system_s for part in own)
        return _Used(user_s, system_s, window.cpu.unused, self._io_of(window))

    def _io_of(self, window: EnergyWindow) -> Mapping[Level, IoBytes]:
        """Return the machine's I/O; of a level that is counted by service only it is their sum."""
        io = dict(window.io)
        for level in LEVELS:
            parts = [used.io[level] for used in window.services.values() if level in used.io]
            if level not in io and parts and len(parts) == len(window.services):
                io[level] = IoBytes(math.fsum(p.read for p in parts), math.fsum(p.written for p in parts))
        return io

    def _operations(
        self, used: Callable[[EnergyWindow], _Used], windows: Sequence[EnergyWindow] | None = None
    ) -> dict[Level, float]:
        """Return level -> operations per request, of the levels that are counted in all windows."""
        windows = self.windows if windows is None else windows
        io = [used(window).io for window in windows]
        requests = math.fsum(map(_requests, windows))
        return {
            level: math.fsum(part[level].operations for part in io) / requests
            for level in LEVELS
            if all(level in part for part in io)
        }

    def _no_io(self, used: Callable[[EnergyWindow], _Used], windows: Sequence[EnergyWindow] | None = None) -> str:
        """Say why there is no cost of I/O; empty where there is one."""
        counted = self._operations(used, windows).get(self._level)
        return NOT_COUNTED if counted is None else "" if counted > 0 else NO_IO

    def _io(
        self, used: Callable[[EnergyWindow], _Used], windows: Sequence[EnergyWindow] | None = None
    ) -> IoCost | None:
        """Return the cost of I/O at the level asked for; None where there was none, or it is not counted."""
        if self._no_io(used, windows):
            return None
        windows = self.windows if windows is None else windows
        parts = [used(window) for window in windows]
        counts = [part.io[self._level].operations for part in parts]
        constants, clock = self._constants, self._constants.frequency_hz

        def per_io(seconds: Sequence[float]) -> Figure | None:
            return None if clock is None else ratio([cycles(value, clock) for value in seconds], counts)

        def joules(busy: Sequence[float], times: float) -> dict[str, Figure]:
            peak = constants.peak_w
            if peak is None:
                return {}
            factors = math.exp(-constants.peak_error), math.exp(constants.peak_error)
            by_share: dict[str, Figure] = {}
            for name, share in constants.idle_shares.items():
                above = [
                    times * joules_of(busy_s, part.unused_s, peak_w=peak, idle_share=share, cores=constants.cores)
                    for busy_s, part in zip(busy, parts, strict=True)
                ]
                if (of_share := ratio(above, counts, factors)) is not None:
                    by_share[name] = of_share
            return by_share

        busy, user = [part.user_s + part.system_s for part in parts], [part.user_s for part in parts]
        rates = [count / window.seconds for count, window in zip(counts, windows, strict=True)]
        return IoCost(
            level=self._level,
            operations_per_s=figure(rates, EXACT),
            cpio=per_io(busy),
            cpio_idle=per_io([part.unused_s for part in parts]),
            user_cpio=per_io(user),
            eio=joules(busy, 1.0),
            emio=joules(busy, MILLION),
            user_emio=joules(user, MILLION),
        )

    def _amplification(self) -> dict[str, float]:
        """Return the ratios of bytes from level to level."""
        counted = self._operations(self._of_machine)
        steps: tuple[tuple[Level, Level], ...] = (("application", "block"), ("block", "device"))
        return {
            f"{lower}/{upper}": counted[lower] / counted[upper]
            for upper, lower in steps
            if counted.get(upper, 0.0) > 0 and lower in counted
        }


def _whole(window: EnergyWindow) -> float:
    return 0.0 if window.whole is None else window.whole.value


def _requests(window: EnergyWindow) -> float:
    return (window.requests_per_s or 0.0) * window.seconds
