"""Comparisons of energy: of two applications or configurations, and of one on rising numbers of cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from framework.bench import Backends, Watch
from framework.config.writing import write_text
from framework.energy.answer import answered
from framework.energy.answers import EnergyAnswer
from framework.energy.scaling import Projection, projections
from framework.errors import FieldError, InputError
from framework.model.energy import Level
from framework.model.energy_measurement import ROUNDS, EnergyMeasurement, EnergyRequest
from framework.model.events import ProfileStepStarted
from framework.report.energy_plots import cores_plot
from framework.study.energy_verdict import FEWEST, EnergyComparison, ratios
from framework.use_cases.energy import Energies, MeasuredEnergy, checked

ORDER_STREAM = 41  # of the random numbers that order the rounds of a comparison


@dataclass(frozen=True, slots=True)
class CoresPoint:
    """Cycles per I/O operation on so many cores: of all busy time, and of that in the kernel; with the replies/s."""

    cores: int
    cpio: float
    system_cpio: float
    requests_per_s: float


@dataclass(frozen=True, slots=True)
class EnergyScaling:
    """Cycles per I/O on rising numbers of cores.

    ``projections``: of those in the kernel, to many more cores; none where that is refused, and then ``refusal`` says
    why.  ``figure``: None without projections.
    """

    application: str
    points: tuple[CoresPoint, ...]
    projections: tuple[Projection, ...]
    refusal: str
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
            ratios(by_round(before.measurement, level), by_round(after.measurement, level)),
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

        With fewer than four numbers of cores, nothing is projected.  Raises what ``measure`` raises.
        """
        request = replace(checked(request, level), phases=("run",))
        if not cores or min(cores) < 1:
            raise FieldError("cores", ",".join(map(str, cores)), "numbers of physical cores, 1 or more")
        sizes = sorted(set(cores))
        name = self._backends.application(request.application).name
        requests = [replace(request, cores=size) for size in sizes]
        labels = [f"{size}-cores" for size in sizes]
        made = self._alternating(f"scale-{name}", labels, requests, watch, level, again=again)
        points = tuple(_point(size, measured.answer) for size, measured in zip(sizes, made, strict=True))
        cycles = [(point.cores, point.system_cpio) for point in points]
        try:
            projected = projections(cycles)
        except InputError as error:
            return EnergyScaling(name, points, (), str(error), None)
        path = self._backends.home / "energy" / f"scale-{name}" / "cores.svg"
        return EnergyScaling(name, points, projected, "", write_text(path, cores_plot(cycles, projected)))

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
    """Return round -> the answer of its windows under load, beside all windows without load."""
    return {
        number: answered(
            replace(
                measurement,
                windows=tuple(w for w in measurement.windows if w.phase != "run" or w.round == number),
            ),
            level,
        )
        for number in sorted({window.round for window in measurement.of("run")})
    }


def _point(cores: int, answer: EnergyAnswer) -> CoresPoint:
    """Return the cycles per I/O of an answer.  Raises InputError where there was no I/O, or no clock is known."""
    run = answer.runs[0] if answer.runs else None
    if run is None or run.io is None or answer.constants.frequency_hz is None:
        why = "no window counts" if run is None else run.no_io or "the kernel does not tell the clock of the CPUs"
        raise InputError(f"on {cores} cores: {why}")
    cpio = run.io.cpio.value
    return CoresPoint(cores, cpio, cpio - run.io.user_cpio.value, run.requests_per_s.value)
