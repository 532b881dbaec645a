"""Energy of applications: measured in rounds, kept in a file and gone on with, and answered on a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from framework.bench import Backends, Bench, TestbedKind, Watch
from framework.config.energy_file import load_energy, write_energy
from framework.config.knowledge import load_service_types, resolved
from framework.config.writing import write_text
from framework.energy.answer import answered
from framework.energy.answers import EnergyAnswer
from framework.energy.schedule import Step, steps
from framework.errors import FieldError, FieldName, InputError, Interrupted, LeaseLost, MissingPrerequisite, UnknownName
from framework.model import Application, TuneRequest
from framework.model.cpus import read_cpus
from framework.model.energy import LEVELS, Level
from framework.model.energy_measurement import (
    PHASES,
    QUICK_ENERGY,
    ROUNDS,
    WARMUP_S,
    WINDOW_S,
    EnergyMeasurement,
    EnergyRequest,
)
from framework.ports.energy import EnergyMeter
from framework.report.energy_page import energy_page
from framework.study.core_places import cpu_sets, place_of
from framework.study.energy_records import EnergyRecords
from framework.study.energy_rounds import EnergyRounds
from framework.study.locks import file_lock
from framework.study.planning import QUICK_LIMITS
from framework.study.runner import StudyRunner
from framework.study.tuned import tuned
from framework.use_cases.studies import Studies
from optimizer.space import Configuration, SearchSpace

QUICK_ATTEMPTS, ATTEMPTS = 2, 3
LEAST_MBS = 0.1  # of a disk
RECORDING = "recording"
SAME = (
    "application", "content_hash", "testbed", "processor", "cpus", "source", "label", "about", "curve", "warmup_s",
    "window_s", "rates_rps", "phases", "seed", "traced", "configuration", "cores", "disk_mbs", "limits",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MeasuredEnergy:
    """A measurement that is kept, what it says, and its page."""

    measurement: EnergyMeasurement
    answer: EnergyAnswer
    file: Path
    page: Path


class Energies:
    """Measurements of energy, kept below TAILOR_HOME; each is recorded as a study of its own too."""

    def __init__(self, backends: Backends, studies: Studies, runner: StudyRunner) -> None:
        self._backends, self._studies, self._runner = backends, studies, runner
        self.records = EnergyRecords(backends.home)

    def measure(
        self,
        request: EnergyRequest,
        watch: Watch,
        path: Path | None = None,
        *,
        level: Level = "device",
        page: Path | None = None,
        again: bool = False,
    ) -> MeasuredEnergy:
        """Measure the windows that are not in the file yet, and answer; ``again``: begin anew.

        Raises InputError, MissingPrerequisite; Interrupted, and the windows that were finished are kept.
        """
        request = checked(request, level)
        application = self._backends.application(request.application)
        kind = self._metered(request, application)
        target = path or self.records.path(application.name)
        with file_lock(self._backends.home, target):
            meter = kind.energy(request.power) if kind.energy is not None else None
            if meter is None:
                raise _not_metered(kind)
            try:
                if missing := meter.missing():
                    raise MissingPrerequisite(missing, "name another power source with --power")
                asked = self._asked(request, application, kind, meter)
                measurement = asked if again or not target.exists() else continued(load_energy(target), asked, target)
                wanted = missing_steps(measurement)
                if wanted:
                    measurement = self._made(request, measurement, wanted, meter, watch, target)
            finally:
                meter.close()
        return self.answered(measurement, target, level, page)

    def answered(
        self, measurement: EnergyMeasurement, file: Path, level: Level = "device", page: Path | None = None
    ) -> MeasuredEnergy:
        """Answer a measurement, and write its page, by default beside its file.  Raises InputError."""
        _check_level(level)
        answer = answered(measurement, level)
        written = write_text(page or file.with_suffix(".html"), energy_page(answer))
        return MeasuredEnergy(measurement, answer, file, written)

    # ------------------------------------------------------------------ measuring

    def _metered(self, request: EnergyRequest, application: Application) -> TestbedKind:
        """Return the testbed, by default the first that has counters of energy.  Raises MissingPrerequisite."""
        if request.testbed != "auto":
            kind = self._backends.kind(request.testbed)
        else:
            metered = (kind for kind in self._backends.kinds if kind.energy is not None)
            kind = next(metered, self._backends.kinds[0])
        if kind.energy is None:
            raise _not_metered(kind)
        return kind

    def _asked(
        self, request: EnergyRequest, application: Application, kind: TestbedKind, meter: EnergyMeter
    ) -> EnergyMeasurement:
        """Return the measurement that a request asks for, without windows.  Raises InputError, NotFound."""
        machine = self._backends.machine_of(kind.name, application)
        counters = meter.read(None)
        return EnergyMeasurement(
            application=application.name,
            content_hash=application.content_hash,
            testbed=kind.name,
            processor=machine.cpu,
            cpus=counters.cpus,
            source=meter.source.name,
            label=meter.source.label,
            about=meter.source.about(),
            warmup_s=WARMUP_S if request.warmup_s is None else request.warmup_s,
            window_s=WINDOW_S if request.window_s is None else request.window_s,
            rounds=ROUNDS if request.rounds is None else request.rounds,
            rates_rps=tuple(sorted(set(request.rates_rps or (application.workload.rate_rps,)))),
            phases=request.phases,
            seed=request.seed,
            curve=meter.curve(),
            frequency_hz=meter.frequency_hz(),
            traced=request.trace,
            configuration=tuned(self._backends.store, request.study, application) if request.study else {},
            cores=request.cores,
            disk_mbs=request.disk_mbs,
            limits=dict(request.limits),
            lag_s=meter.source.lag_s,
            study=request.study,
            tracing=application.tracing_service,
            at=datetime.fromtimestamp(self._backends.clock.now_ns() / 1e9, UTC).isoformat(timespec="seconds"),
        )

    def _made(
        self,
        request: EnergyRequest,
        measurement: EnergyMeasurement,
        wanted: list[Step],
        meter: EnergyMeter,
        watch: Watch,
        target: Path,
    ) -> EnergyMeasurement:
        study = self._studies.create(_study_request(request, measurement))
        write_energy(measurement, target)  # it can be written, which is better known now than after hours
        application = self._backends.application(request.application)
        values, cpus, types = dict(measurement.configuration), "", None
        if measurement.cores:
            place = place_of(self._backends.kind(measurement.testbed).topology(application), measurement.cores)
            values, cpus = {**cpu_sets(application, place), **values}, place.generator
            known = load_service_types(self._backends.spaces)
            memory_mib = self._backends.machine_of(measurement.testbed, application).memory_mib
            types = resolved(known, cores=len(read_cpus(place.services)), memory_mib=memory_mib)

        def rounds(bench: Bench, space: SearchSpace) -> EnergyMeasurement:
            made = EnergyRounds(
                bench if types is None else replace(bench, types=types), study.id, study.effective_plan, meter,
                Configuration(values), lambda kept: write_energy(kept, target),
                QUICK_ATTEMPTS if request.quick else ATTEMPTS, cpus, measurement.disk_mbs,
            )  # fmt: skip
            return made.measured(measurement, wanted)

        try:
            return self._runner.on_bench(study, watch, rounds)
        except LeaseLost:
            raise
        except Interrupted as error:
            count = len(load_energy(target).windows)
            raise Interrupted(f"stopped; {count} windows are kept in {target}, and the same command goes on") from error


def continued(kept: EnergyMeasurement, asked: EnergyMeasurement, path: Path) -> EnergyMeasurement:
    """Return a kept measurement with as many rounds as are asked for.  Raises InputError where conditions differ."""
    if differ := [name for name in SAME if getattr(kept, name) != getattr(asked, name)]:
        raise InputError(
            f"{path}: measured under other conditions ({', '.join(differ)}); allowed: ", FieldName("again"),
            ", or another ", FieldName("file"),
        )  # fmt: skip
    if kept.source == RECORDING and asked.rounds > kept.rounds:
        raise InputError(
            f"{path}: a recording begins anew, so that nothing can be added to these rounds; allowed: ",
            FieldName("again"),
        )  # fmt: skip
    return replace(kept, rounds=max(kept.rounds, asked.rounds))


def missing_steps(measurement: EnergyMeasurement) -> list[Step]:
    """Return the steps whose windows a measurement lacks."""
    made = {(window.phase, window.round, window.rate_rps) for window in measurement.windows}

    def lacks(step: Step) -> bool:
        if step.baseline:
            return ("baseline", step.round, None) not in made
        if step.rate_rps is not None:
            return ("run", step.round, step.rate_rps) not in made
        return ("idle", step.round, None) not in made

    every = steps(measurement.rounds, measurement.rates_rps, measurement.phases, measurement.seed)
    return [step for step in every if lacks(step)]


def _check_level(level: str) -> None:
    if level not in LEVELS:
        raise UnknownName("level", level, LEVELS, field="io")


def checked(request: EnergyRequest, level: Level) -> EnergyRequest:
    """Return the request with the values of a quick one, where it is one.  Raises FieldError, UnknownName."""
    _check_level(level)
    if request.quick:
        unset = {name: value for name, value in QUICK_ENERGY.items() if getattr(request, name) is None}
        request = replace(request, **unset, limits={**QUICK_LIMITS, **request.limits})
    for phase in request.phases:
        if phase not in PHASES:
            raise UnknownName("phase", phase, PHASES, field="phases")
    if not request.phases:
        raise FieldError("phases", "none", f"some of {', '.join(PHASES)}")
    bounds: Mapping[str, tuple[float, float]] = {
        "window_s": (1.0, 3600.0), "warmup_s": (0.5, 3600.0), "rounds": (1, 1000),
    }  # fmt: skip
    for name, (least, most) in bounds.items():
        value = getattr(request, name)
        if value is not None and not least <= value <= most:
            raise FieldError(name, value, f"{least:g} to {most:g}")
    if request.disk_mbs and not LEAST_MBS <= request.disk_mbs <= 1e6:
        raise FieldError("disk_mbs", request.disk_mbs, f"0 (no limit), or {LEAST_MBS:g} to 1,000,000 MB/s")
    for rate in request.rates_rps:
        if not 0 < rate <= 1e7:
            raise FieldError("rate", rate, "above 0 and up to 10,000,000 requests/s")
    return replace(request, phases=tuple(phase for phase in PHASES if phase in request.phases))


def _not_metered(kind: TestbedKind) -> MissingPrerequisite:
    return MissingPrerequisite(
        f"the testbed {kind.name} has no counters of energy", "use one on this machine: --testbed docker"
    )


def _study_request(request: EnergyRequest, measurement: EnergyMeasurement) -> TuneRequest:
    return TuneRequest(
        request.application,
        optimizer="random",
        iterations=1,
        repetitions=1,
        warmup_s=measurement.warmup_s,
        window_s=measurement.window_s,
        rate_rps=max(request.rates_rps, default=None),  # None: the application's own, which may be below 1
        pairs=2,
        minimal=0,
        seed=measurement.seed,
        limits=request.limits,
        testbed=measurement.testbed,
        trace=measurement.traced,
    )
