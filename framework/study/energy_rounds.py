"""The windows of a measurement of energy: rounds with the application away, idle and under load."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from framework.bench import Bench
from framework.controller import ATTEMPTS, Controller
from framework.energy.schedule import Step
from framework.energy.windows import window_between
from framework.errors import KnobRefused, MeasurementInvalid, TrialFailed
from framework.model import LoadPlan, LoadResult, Running, StudyPlan, Trial, TrialState, Usage
from framework.model.energy import EnergyCounters, Phase
from framework.model.energy_measurement import EnergyMeasurement, EnergyWindow
from framework.model.events import ProfileStepStarted
from framework.model.study import TrialSpec, project_name
from framework.ports.energy import EnergyMeter
from framework.ports.load import LoadGenerator
from framework.ports.testbed import Progress
from optimizer.space import Configuration

SETTLE_S = 3.0  # after containers were removed or became ready
TICK_S = 1.0  # between two readings of the power source
LATEST_S, LATE = 1.0, 0.1  # seconds, or share of a window, that a reading may be off its edge


@contextmanager
def ticking(meter: EnergyMeter, every_s: float = TICK_S) -> Iterator[None]:
    """Read the power source again and again while the block runs."""
    over = threading.Event()

    def tick() -> None:
        while not over.wait(every_s):
            meter.tick()

    thread = threading.Thread(target=tick, name="tailor-energy", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class MeteredLoad:
    """A load generator whose window is metered, with a window without load before it where ``idle_s`` is not None.

    ``idle``, ``loaded``: the windows of the last run; None before it.  Loads without a warm-up prepare the application,
    and are not metered.
    """

    def __init__(
        self,
        load: LoadGenerator,
        meter: EnergyMeter,
        bench: Bench,
        round_: int,
        idle_s: float | None,
        cpus: str = "",
        disk_mbs: float = 0.0,
    ) -> None:
        self._load, self._meter, self._bench, self._round, self._idle_s = load, meter, bench, round_, idle_s
        self._cpus, self._disk_mbs = cpus, disk_mbs
        self.idle: EnergyWindow | None = None
        self.loaded: EnergyWindow | None = None

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        """Drive the load."""
        plan = replace(plan, cpus=self._cpus) if self._cpus else plan
        if plan.warmup_s <= 0:
            return self._load.run(plan, running, usage, progress)
        if self._disk_mbs:
            self._meter.throttle(running, self._disk_mbs)
        if self._idle_s is not None:
            progress("idle: the application is up, without load")
            self.idle = quiet_window(self._bench, self._meter, "idle", self._round, self._idle_s, running)
        control_s = self._meter.control_s()
        readings: list[tuple[int, EnergyCounters]] = []

        def metered() -> Usage:
            try:
                counters = self._meter.read(running)
            except KnobRefused as error:
                usage()  # where a service has ended, this says why
                raise MeasurementInvalid([f"the counters of energy: {error}"]) from error
            read = usage()
            readings.append((read.at_ns, counters))
            return read

        self._meter.tick()  # the source may have been silent for long: what it lost is lost before the window
        try:
            with ticking(self._meter):
                result = self._load.run(plan, running, metered, progress)
        finally:
            if self._disk_mbs:
                self._meter.throttle(running, 0.0)
        self.loaded = replace(self._window(result, readings), control_s=control_s)
        return result

    def _window(self, result: LoadResult, readings: Sequence[tuple[int, EnergyCounters]]) -> EnergyWindow:
        """Cut the window between the readings that are nearest to its edges."""
        if not readings:
            raise MeasurementInvalid(["the load generator did not tell when its window began and ended"])
        (before_ns, before), (after_ns, after) = (
            min(readings, key=lambda reading: abs(reading[0] - edge)) for edge in result.edges_ns
        )
        window = window_between(before, after, "run", self._round, self._bench.application.limits.stolen_cpu)
        late_s = max(abs(at - edge) for at, edge in zip((before_ns, after_ns), result.edges_ns, strict=True)) / 1e9
        if late_s > max(LATEST_S, LATE * result.window_s):
            window = replace(window, invalid=(*window.invalid, f"counters were read {late_s:.1f} s off the window"))
        first, last = result.usage_before, result.usage_after
        return replace(
            window,
            generator_s=None if result.cpu_s is None else result.cpu_s * window.seconds / result.window_s,
            tailor_s=None if first is None or last is None else max(0.0, last.tailor_cpu_s - first.tailor_cpu_s),
        )


def quiet_window(
    bench: Bench, meter: EnergyMeter, phase: Phase, round_: int, seconds: float, running: Running | None
) -> EnergyWindow:
    """Measure a window in which nothing is asked of the machine."""
    bench.clock.sleep(SETTLE_S)
    control_s = meter.control_s()
    meter.tick()  # the source may have been silent for long: what it lost is lost before the window
    before = meter.read(running)
    with ticking(meter):
        bench.clock.sleep(seconds)
    stolen_most = bench.application.limits.stolen_cpu
    return replace(window_between(before, meter.read(running), phase, round_, stolen_most), control_s=control_s)


@dataclass(frozen=True, slots=True)
class EnergyRounds:
    """The rounds of a measurement on a bench.

    ``configuration``: that is measured.  ``keep``: is given the measurement after each step, so that none is made
    twice.  ``attempts``: to get a window that counts.  ``cpus``: of the load generator; empty: its choice.
    ``disk_mbs``: limit on each service and disk; 0: none.
    """

    bench: Bench
    study: str
    plan: StudyPlan
    meter: EnergyMeter
    configuration: Configuration
    keep: Callable[[EnergyMeasurement], object]
    attempts: int = ATTEMPTS
    cpus: str = ""
    disk_mbs: float = 0.0

    def measured(self, measurement: EnergyMeasurement, wanted: Sequence[Step]) -> EnergyMeasurement:
        """Make the steps, one after the other; return the measurement with their windows."""
        for number, step in enumerate(wanted, 1):
            self.bench.watch(ProfileStepStarted(f"{number} of {len(wanted)}: round {step.round + 1}, {_named(step)}"))
            measurement = replace(measurement, windows=(*measurement.windows, *self._windows(measurement, step)))
            self.keep(measurement)
        return measurement

    def _windows(self, measurement: EnergyMeasurement, step: Step) -> list[EnergyWindow]:
        if not step.baseline:
            return self._deployed(measurement, step)
        self.bench.testbed.clean(project_name(self.study))
        for _ in range(self.attempts):
            window = quiet_window(self.bench, self.meter, "baseline", step.round, measurement.window_s, None)
            if not window.invalid:
                break
        return [window]

    def _deployed(self, measurement: EnergyMeasurement, step: Step) -> list[EnergyWindow]:
        """Deploy the application, and measure it without load, under load, or both; again where that does not count.

        Raises TrialFailed where it could not be deployed or loaded at all.
        """
        for _ in range(self.attempts):
            windows = self._attempt(measurement, step)
            if not any(window.invalid for window in windows):
                break
        return windows

    def _attempt(self, measurement: EnergyMeasurement, step: Step) -> list[EnergyWindow]:
        idle_s = measurement.window_s if step.idle else None
        load = MeteredLoad(self.bench.load, self.meter, self.bench, step.round, idle_s, self.cpus, self.disk_mbs)
        bench = replace(self.bench, load=load)
        rate_rps = step.rate_rps or self.plan.rate_rps
        controller = Controller(bench, self.study, replace(self.plan, rate_rps=rate_rps), attempts=1)
        label = f"energy, round {step.round + 1}, {rate_rps:g}/s"
        trial = controller.run(TrialSpec(self.configuration, "probe", 1, label=label))
        if load.loaded is None:
            raise TrialFailed(f"round {step.round + 1}, {_named(step)}: {trial.reason or trial.state}")
        windows = [] if load.idle is None else [load.idle]
        if step.rate_rps is not None:
            windows.append(_with_replies(load.loaded, trial, rate_rps))
        return windows


def _with_replies(window: EnergyWindow, trial: Trial, rate_rps: float) -> EnergyWindow:
    """Return a window with what the trial says of its replies, and why it does not count, if it does not."""
    valid = [measurement for measurement in trial.measurements if not measurement.invalid]
    invalid = list(window.invalid)
    if trial.state is not TrialState.COMPLETED:
        invalid.append(trial.reason or f"the trial is {trial.state}")
    if not valid:
        return replace(window, rate_rps=rate_rps, invalid=tuple(invalid))
    p95 = valid[-1].quantities.get("p95")
    return replace(
        window,
        rate_rps=rate_rps,
        requests_per_s=valid[-1].achieved_rps,
        p95_ms=None if p95 is None else p95.value,
        invalid=tuple(invalid),
    )


def _named(step: Step) -> str:
    if step.baseline:
        return "baseline: nothing of the application runs"
    parts = ["idle"] if step.idle else []
    if step.rate_rps is not None:
        parts.append(f"{step.rate_rps:g} requests/s")
    return " and ".join(parts)
