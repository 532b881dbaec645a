"""The answer of a measurement of energy: its phases, and what an application at each rate takes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from framework.energy.answers import Constants, EnergyAnswer, Figure, PhaseAnswer
from framework.energy.attribution import OTHERS
from framework.energy.figures import figure
from framework.energy.idle import source_factors, watts_of
from framework.energy.run_answer import RunWindows
from framework.model.energy import STATES, Level, Phase
from framework.model.energy_measurement import EnergyMeasurement, EnergyWindow

OWN = "own"
SOURCE_SHARES: Mapping[str, float] = {"0": 0.0, "0.7": 0.7}
"""Idle power as a share of the peak, as the source (Akram et al.) takes it for a server of tomorrow and of its day."""

BUSY = 0.05  # utilisation of a baseline above which others run
DRIFT = 0.2  # of the control work's median time: a window in which it took more, or less, does not count
FEW_CONTROLS = 5  # below it, a median says nothing of what is usual
WRITEBACK_S = 30.0
"""Seconds after which Linux writes what has changed in memory to the disk (vm.dirty_expire_centisecs)."""
LAGS = 4  # times a source's lag: shorter windows have much of what ran before them


def answered(measurement: EnergyMeasurement, level: Level = "device") -> EnergyAnswer:
    """Return what a measurement says; I/Os count at ``level``."""
    measurement = without_drift(measurement)
    constants = _constants(measurement)
    rates = sorted({w.rate_rps for w in measurement.windows if w.phase == "run" and w.rate_rps is not None})
    runs = [RunWindows(measurement, rate, level, constants) for rate in rates]
    phases = [_phase(measurement, "baseline", None), _phase(measurement, "idle", None)]
    phases += [_phase(measurement, "run", rate) for rate in rates]
    controls = [w.control_s for w in measurement.windows if w.control_s is not None and not w.invalid]
    return EnergyAnswer(
        application=measurement.application,
        source=measurement.source,
        label=measurement.label,
        scope=_scope(measurement),
        about=measurement.about,
        processor=measurement.processor,
        level=level,
        constants=constants,
        curve=measurement.curve,
        phases=tuple(phase for phase in phases if phase.windows or phase.left_out),
        runs=tuple(run.answer() for run in runs if run.windows),
        control=figure([1e3 * seconds for seconds in controls]) if controls else None,
        notes=tuple(_notes(measurement, level)),
        tracing=measurement.tracing,
        at=measurement.at,
    )


def without_drift(measurement: EnergyMeasurement) -> EnergyMeasurement:
    """Return the measurement with the windows marked before which the control work took another time than usual."""
    known = [window.control_s for window in measurement.windows if window.control_s]
    if len(known) < FEW_CONTROLS:
        return measurement
    usual = statistics.median(known)

    def marked(window: EnergyWindow) -> EnergyWindow:
        if not window.control_s or abs(window.control_s / usual - 1) <= DRIFT:
            return window
        why = f"the machine was {window.control_s / usual:.2f} times as slow as usual (fixed work)"
        return replace(window, invalid=(*window.invalid, why))

    return replace(measurement, windows=tuple(map(marked, measurement.windows)))


def _scope(measurement: EnergyMeasurement) -> str:
    """Say what the joules are of, by the zones that the source told."""
    zones = {zone for window in measurement.windows for zone in window.joules}
    return "the whole machine" if zones & {"psys", "machine"} or not zones else "the processors and what memory tells"


def _constants(measurement: EnergyMeasurement) -> Constants:
    curve, cores, clock = measurement.curve, measurement.cpus, measurement.frequency_hz
    if curve is None:
        why = "the power of this machine at full load is not known; say it as the power source curve:IDLE,FULL"
        return Constants(None, SOURCE_SHARES, cores, clock, why=why)
    error = curve.error if curve.ends_error is None else curve.ends_error
    return Constants(curve.full_w, {OWN: curve.idle_share, **SOURCE_SHARES}, cores, clock, curve.source, error)


def _watts(windows: Sequence[EnergyWindow]) -> Figure | None:
    told = watts_of(windows)
    return figure(told, source_factors(windows)) if told else None


def _phase(measurement: EnergyMeasurement, phase: Phase, rate: float | None) -> PhaseAnswer:
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
        phase=phase,
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


def _notes(measurement: EnergyMeasurement, level: Level) -> list[str]:
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
    if measurement.windows and not any(window.whole is not None for window in measurement.windows):
        notes.append(f"the power source {measurement.source} told no joules in any window")
    if level == "device" and measurement.window_s < WRITEBACK_S:
        notes.append(
            f"windows of {measurement.window_s:g} s are shorter than the {WRITEBACK_S:g} s after which Linux writes to "
            "the disk: what is not synced may count in a later window"
        )
    lag_s = measurement.lag_s
    if measurement.window_s < LAGS * lag_s:
        notes.append(
            f"readings of {measurement.source} may be {lag_s:g} s old: windows of {measurement.window_s:g} s have much "
            f"of what ran before them; {LAGS * lag_s:g} s and more are surer (--duration)"
        )
    if measurement.disk_mbs:
        notes.append(
            f"each service could use {measurement.disk_mbs:g} MB/s of a disk; with cgroup v1 that holds for what it "
            "reads, writes directly or syncs, and not for what the kernel writes back later"
        )
    return notes
