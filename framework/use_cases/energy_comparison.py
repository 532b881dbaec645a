"""Comparisons of energy: of two applications or configurations, and of one on rising numbers of cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from framework.bench import Backends, Watch
from framework.config.writing import write_text
from framework.energy.answer import answered, without_drift
from framework.energy.answers import EnergyAnswer
from framework.energy.scaling import Projection, projections
from framework.errors import FieldError, InputError
from framework.model.energy import Level
from framework.model.energy_measurement import ROUNDS, EnergyMeasurement, EnergyRequest
from framework.model.events import ProfileStepStarted
from framework.report.energy_plots import cores_plot
from framework.study.core_places import place_of
from framework.study.energy_verdict import FEWEST, EnergyComparison, ratios
from framework.use_cases.energy import RECORDING, Energies, MeasuredEnergy, checked

LEAST_RPS = 1.0  # of a load that is asked for
ORDER_STREAM = 41  # of the random numbers that order the rounds of a comparison


@dataclass(frozen=True, slots=True)
class CoresPoint:
    """Cycles per I/O operation of the services on so many cores: of all their CPU time, and of that in the kernel.

    ``utilisation``: of all CPUs of the machine.
    """

    cores: int
    cpio: float
    system_cpio: float
    requests_per_s: float
    utilisation: float


@dataclass(frozen=True, slots=True)
class EnergyScaling:
    """Cycles per I/O on rising numbers of cores.

    ``projections``: of those in the kernel, to many more cores; none where that is refused.  ``notes``: why a size has
    no point, or nothing is projected.  ``figure``: None without projections.
    """

    application: str
    points: tuple[CoresPoint, ...]
    projections: tuple[Projection, ...]
    notes: tuple[str, ...]
    figure: Path | None


class EnergyComparisons:
    """Measurements that alternate in rounds, kept below TAILOR_HOME."""

    def __init__(self, backends: Backends, energies: Energies) -> None:
        self._backends, self._energies = backends, energies

    def compare(
        self, first: EnergyRequest, second: EnergyRequest, watch: Watch, *, level: Level = "device", again: bool = False
    ) -> EnergyComparison:
        """Measure two applications, or two configurations of one, in rounds that alternate, and compare them.

        Raises what ``measure`` raises; the windows that were finished are kept, and the same call goes on.
        """
        requests = [checked(first, level), checked(second, level)]
        names = self._names(requests)
        self._check_rates(requests)
        _refuse_recording(requests[0])
        before, after = self._alternating(f"compare-{'-'.join(names)}", names, requests, watch, level, again=again)
        rounds = requests[0].rounds or ROUNDS
        notes = []
        if rounds < FEWEST:
            notes.append(f"{rounds} pairs are too few for an interval; {FEWEST} at least are needed")
        if before.measurement.source != after.measurement.source:
            notes.append("the power sources differ, so that joules do not compare")
        return EnergyComparison(
            names[0],
            names[1],
            ratios(by_round(before.measurement, level), by_round(_same_clock(after, before), level)),
            tuple(notes),
            (before.page, after.page),
        )

    def scale(
        self,
        request: EnergyRequest,
        cores: Sequence[int],
        watch: Watch,
        *,
        level: Level = "device",
        again: bool = False,
    ) -> EnergyScaling:
        """Measure cycles per I/O of an application on rising numbers of cores, and project them to many more.

        The rate is in proportion to the cores, the application's own or the one asked for on the most, so that the
        cores are equally busy.  With fewer than four numbers of cores, nothing is projected.  Raises what ``measure``
        raises.
        """
        request = replace(checked(request, level), phases=("run",))
        _refuse_recording(request)
        application = self._backends.application(request.application)
        sizes = sorted(set(cores))
        if not sizes:
            raise FieldError("cores", "none", "numbers of physical cores, 1 or more")
        if len(request.rates_rps) > 1:
            raise FieldError("rate", ",".join(f"{rate:g}" for rate in request.rates_rps), "one rate")
        topology = self._backends.choose(request.testbed, application).topology(application)
        places = [place_of(topology, size) for size in sizes]  # all can be had, before the first is measured
        rate = request.rates_rps[0] if request.rates_rps else application.workload.rate_rps
        requests = [replace(request, cores=size, rates_rps=(rate * size / sizes[-1],)) for size in sizes]
        if requests[0].rates_rps[0] < LEAST_RPS:
            raise FieldError(
                "rate", rate, f"at least {LEAST_RPS * sizes[-1] / sizes[0]:g} requests/s on {sizes[-1]} cores"
            )
        labels = [f"{size}-cores" for size in sizes]
        place_of_files = f"scale-{application.name}-{'-'.join(map(str, sizes))}"  # rates are in proportion to the most
        made = self._alternating(place_of_files, labels, requests, watch, level, again=again)
        points, notes = [], []
        for size, place, measured in zip(sizes, places, made, strict=True):
            point, why = _point(size, answered(_same_clock(measured, made[0]), level))
            points += [] if point is None else [point]
            notes += [f"on {size} cores: {why}"] if why else []
            notes += [f"on {size} cores the load generator shares them"] if place.shared else []
        cycles = [(point.cores, point.system_cpio) for point in points]
        try:
            projected = projections(cycles)
        except InputError as error:
            return EnergyScaling(application.name, tuple(points), (), (*notes, f"not projected: {error}"), None)
        path = self._backends.home / "energy" / place_of_files / "cores.svg"
        figure = write_text(path, cores_plot(cycles, projected))
        return EnergyScaling(application.name, tuple(points), projected, tuple(notes), figure)

    def _check_rates(self, requests: Sequence[EnergyRequest]) -> None:
        """Raise FieldError where two applications would be measured at different rates, which do not compare."""
        rates = [
            request.rates_rps or (self._backends.application(request.application).workload.rate_rps,)
            for request in requests
        ]
        if set(rates[0]) != set(rates[1]):
            told = " and ".join(", ".join(f"{rate:g}" for rate in some) for some in rates)
            raise FieldError("rate", f"{told} requests/s of their own", "a rate for both")

    def _alternating(
        self,
        directory: str,
        names: Sequence[str],
        requests: Sequence[EnergyRequest],
        watch: Watch,
        level: Level,
        *,
        again: bool,
    ) -> list[MeasuredEnergy]:
        """Measure all requests round by round, in a random order within each round."""
        root = self._backends.home / "energy" / directory
        files = [root / f"{number}-{name}.json" for number, name in enumerate(names, 1)]
        rounds = requests[0].rounds or ROUNDS
        if again:
            for file in files:
                file.unlink(missing_ok=True)
        made: dict[int, MeasuredEnergy] = {}
        order = np.random.default_rng([requests[0].seed, ORDER_STREAM])
        for round_ in range(rounds):
            for arm in order.permutation(len(requests)).tolist():
                watch(ProfileStepStarted(f"round {round_ + 1} of {rounds}, {names[arm]}"))
                request = replace(requests[arm], rounds=round_ + 1)
                made[arm] = self._energies.measure(request, watch, files[arm], level=level)
        return [made[arm] for arm in range(len(requests))]

    def _names(self, requests: Sequence[EnergyRequest]) -> list[str]:
        """Return a name of each of two measurements: of its application, and of its study where there is one."""
        applications = [self._backends.application(request.application) for request in requests]
        names = [
            application.name
            + (f"-{request.study}" if request.study else "")
            + (f"-{request.disk_mbs:g}-mbs" if request.disk_mbs else "")
            for application, request in zip(applications, requests, strict=True)
        ]
        if names[0] == names[1]:
            raise InputError(f"both are called {names[0]}, and would be kept in one place; allowed: other names")
        return names


def by_round(measurement: EnergyMeasurement, level: Level) -> dict[int, EnergyAnswer]:
    """Return round -> the answer of its own windows, those without load included.

    A mean over the windows without load of all rounds would have one error in common, which no interval shows.
    """
    return {
        number: answered(replace(measurement, windows=tuple(w for w in marked.windows if w.round == number)), level)
        for marked in [without_drift(measurement)]
        for number in sorted({window.round for window in marked.of("run")})
    }


def _same_clock(measured: MeasuredEnergy, as_in: MeasuredEnergy) -> EnergyMeasurement:
    """Return a measurement with the clock of another one on the same machine: cycles are then in one unit."""
    return replace(measured.measurement, frequency_hz=as_in.measurement.frequency_hz)


def _refuse_recording(request: EnergyRequest) -> None:
    if request.power.partition(":")[0] == RECORDING:
        raise FieldError("power", request.power, "a source of now: a recording begins anew in each round")


def _point(cores: int, answer: EnergyAnswer) -> tuple[CoresPoint | None, str]:
    """Return the cycles per I/O of an answer, or why there are none."""
    run = answer.runs[0] if answer.runs else None
    if run is None:
        left_out = "; ".join(reason for phase in answer.phases for reason in phase.reasons)
        return None, f"no window counts: {left_out}"
    if run.io is None or run.io.cpio is None or run.io.user_cpio is None:
        return None, run.no_io or "the clock of the CPUs is not known"
    cpio, busy = run.io.cpio.value, next(phase.utilisation for phase in answer.phases if phase.phase == "run")
    return CoresPoint(cores, cpio, cpio - run.io.user_cpio.value, run.requests_per_s.value, busy), ""
