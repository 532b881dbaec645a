"""Twins: made from measurements, moved to other machines, and asked.  Every answer is modelled, not measured."""

from __future__ import annotations

import math
import statistics
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from framework.bench import Backends
from framework.config.configuration_file import nearest
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.config.twin_file import load_twin, twin_path, twin_text
from framework.config.writing import write_text
from framework.controller import KEPT_TRACES
from framework.errors import FieldError, FieldName, InputError, MissingPrerequisite
from framework.model import Application, Estimate, ServiceType, Step, Sweep
from framework.model.twin import Twin
from framework.placement.slowdowns import attributes
from framework.placement.space import load_profile
from framework.report.plots import sweeps_plot
from framework.study.sweep import conclude, rising_steps
from framework.twin.calibration.assemble import calibrated
from framework.twin.calibration.data import CalibrationData, merged, read_evidence, recorded, write_evidence
from framework.twin.calibration.effects import learnt_effects
from framework.twin.calibration.fit import STEPS, Point, errors, fitted
from framework.twin.replication import Replication, replications
from framework.twin.simulator.program import Program
from framework.twin.times import modelled_times
from framework.twin.translate import compiled, inert
from optimizer.errors import InvalidValue
from optimizer.placement.assignment import PRESSURE, SENSITIVITY, named
from optimizer.space import Configuration, SearchSpace, Value

HELD_OUT = 4  # every fourth configuration is kept for validation
MOST_POINTS = 32  # that a twin is fitted to: a step of the fit simulates them all
SWEEP_FACTOR = 1.25
HIGHEST_RPS = 20_000.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """A twin with the data that it fits.

    ``services``: name -> (measured, modelled) mean time on the critical path in ms, of the default's traces.
    """

    twin: Twin
    recorded: CalibrationData
    services: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Answer:
    """One configuration at one rate; intervals over independent replications, of the simulation only."""

    quantities: Mapping[str, Estimate]  # p50, p95, p99 (ms), throughput (requests/s), failed, cores
    sweep: Sweep | None = None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The twin's answer for the default and for the changed configuration, from the same requests.

    ``ratio``: of p95, changed to default.  ``inert``: changed parameters that mean nothing to the model.
    """

    application: str
    rate_rps: float
    changes: Mapping[str, Value]
    default: Answer
    changed: Answer | None
    ratio: Estimate | None
    inert: tuple[str, ...]
    run_spread: float
    fit: Mapping[str, float]


class Twins:
    """Queueing models of applications."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    def evidence(self, path: Path, sources: Sequence[str]) -> CalibrationData:
        """Read the evidence of studies (ids) and of files.  Raises InputError, NotFound."""
        application = self._backends.application(path)
        files = [name for name in sources if Path(name).is_file()]
        studies = [name for name in sources if name not in files]
        parts = [read_evidence(Path(name)) for name in files]
        if studies:
            parts.append(
                recorded(
                    application,
                    self._backends.types_on(self._backends.machine()),
                    studies,
                    self._backends.store,
                    self._backends.artefacts,
                )
            )
        evidence = merged(parts)
        if evidence.application != application.name:
            raise InputError(f"the evidence is of {evidence.application}, not of {application.name}")
        return evidence

    def write_evidence(self, path: Path, sources: Sequence[str], output: Path) -> Path:
        """Write the evidence of studies to a file, so that their twin can be made again without them.

        Raises InputError, NotFound.
        """
        return write_evidence(self.evidence(path, sources), output)

    def calibrate(
        self,
        path: Path,
        sources: Sequence[str],
        progress: Callable[[str], None] = lambda step: None,
        *,
        steps: int = STEPS,
    ) -> Calibration:
        """Fit a twin to what ``sources`` measured, as in ``evidence``; a quarter of the configurations validates it.

        ``progress`` is told each step; ``steps``: of the fit.  Raises InputError, NotFound.
        """
        application = self._backends.application(path)
        data = self.evidence(path, sources)
        types = resolved(
            load_service_types(self._backends.spaces), cores=data.evidence.cores, memory_mib=data.evidence.memory_mib
        )
        training, validation = split(data.points)
        effects, training = learnt_effects(application, types, training)
        twin = calibrated(application, types, data.structure, data.evidence, effects)
        training, validation = simulated(training), simulated(validation)
        progress(f"{len(training)} configurations and rates to fit, {len(validation)} to validate; compiling")
        twin = fitted(twin, application, types, training, progress, steps=steps)
        fit: dict[str, float] = {"traces_rate_rps": data.rate_rps}
        if data.evidence.tick_us:
            fit["tick_us"] = data.evidence.tick_us
        for name, points in (("fitted", training), ("validation", validation)):
            fit[f"{name}_points"] = len(points)
            if points:
                p50, p95 = errors(twin, application, types, points)
                fit |= {f"{name}_p50_error": round(p50, 4), f"{name}_p95_error": round(p95, 4)}
        twin = replace(twin, fit={**fit, **twin.fit})
        progress("comparing service by service")
        times = modelled_times(twin, application, types, data.rate_rps, KEPT_TRACES)
        modelled = {service.service: service.path_ms.value for service in times}
        services = {name: (ms, modelled.get(name, 0.0)) for name, ms in data.path_ms.items()}
        return Calibration(twin, data, services)

    def write_twin(self, twin: Twin, path: Path, output: Path | None = None) -> Path:
        """Write ``twin.json``, by default beside the application.  Raises InputError."""
        return write_text(output or twin_path(self._backends.application(path).directory), twin_text(twin))

    def rehosted(self, path: Path, *, cores: int, nodes: int, memory_mib: int, profile: Path | None = None) -> Twin:
        """Return an application's twin on another machine whose cores are as fast, with its services' profile if given.

        Raises MissingPrerequisite without a twin, InputError where the profile is of another application.
        """
        application, _, twin = self._twin(path)
        known = attributes(load_profile(profile, application)) if profile else {}
        host = replace(twin.hosts[0], cores=cores, nodes=nodes, memory_mib=memory_mib, others=0.0)
        services = [replace(service, host=host.name) for service in twin.services]
        for number, service in enumerate(services):
            if about := known.get(service.name):
                services[number] = replace(
                    service, sensitivity=named(about, SENSITIVITY), pressure=named(about, PRESSURE)
                )
        return replace(twin, services=tuple(services), hosts=(host,))

    def what_if(
        self,
        path: Path,
        changes: Mapping[str, Value],
        *,
        rate_rps: float | None = None,
        seconds: float = 30.0,
        count: int = 8,
        seed: int = 1,
        limit_ms: float | None = None,
        progress: Callable[[str], None] = lambda step: None,
    ) -> WhatIf:
        """Ask the twin about a changed configuration; with ``limit_ms`` also at which rate p95 passes it.

        Raises InputError on an unknown parameter or a value that is not allowed, MissingPrerequisite without a twin.
        """
        application, types, twin = self._twin(path)
        space = self._space(application, types, twin)
        if count < 2 or seconds < 1:
            raise InputError(
                FieldName("count"), ", ", FieldName("seconds"),
                f": found {count}, {seconds:g} s; allowed: at least 2, 1 s",
            )  # fmt: skip
        changed = _changed(space, changes)
        rate = application.workload.rate_rps if rate_rps is None else rate_rps
        seeds = range(seed, seed + count)
        arms = [space.default(), *([changed] if changes else [])]
        programs = [compiled(twin, application, types, arm)[0] for arm in arms]
        progress("simulating (the first time, the simulator is compiled)")
        runs = [replications(program, rate, seconds, seeds) for program in programs]
        sweeps: list[Sweep | None] = [None] * len(arms)
        if limit_ms is not None:
            sweeps = [
                self._sweep(application.name, program, limit_ms, seconds, seeds, progress) for program in programs
            ]
        idle = sum(host.others for host in twin.hosts)
        answers = [Answer(_quantities(rows, idle), sweep) for rows, sweep in zip(runs, sweeps, strict=True)]
        silent = set(inert(twin, application, types))
        return WhatIf(
            application=application.name,
            rate_rps=rate,
            changes=dict(changes),
            default=answers[0],
            changed=answers[1] if changes else None,
            ratio=_ratio(*runs) if changes else None,
            inert=tuple(name for name in changes if name in silent),
            run_spread=twin.run_spread,
            fit=twin.fit,
        )

    def plot(self, answer: WhatIf, path: Path | None = None) -> Path:
        """Draw the sweeps of an answer; by default below TAILOR_HOME.  Raises InputError where there are none."""
        arms = {"default": answer.default.sweep, "changed": answer.changed.sweep if answer.changed else None}
        sweeps = {name: sweep for name, sweep in arms.items() if sweep is not None}
        if not sweeps:
            raise InputError(FieldName("plot"), ": there is a plot with ", FieldName("limit_ms"), " only")
        return write_text(
            path or self._backends.home / "reports" / f"twin-{answer.application}.svg", sweeps_plot(sweeps)
        )

    def _twin(self, path: Path) -> tuple[Application, Mapping[str, ServiceType], Twin]:
        application = self._backends.application(path)
        file = twin_path(application.directory)
        if not file.exists():
            raise MissingPrerequisite(f"{application.directory} has no twin.json", "make one: `tailor twin calibrate`")
        twin = load_twin(file)
        host = twin.hosts[0]
        types = resolved(load_service_types(self._backends.spaces), cores=host.cores, memory_mib=host.memory_mib)
        return application, types, twin

    def _space(self, application: Application, types: Mapping[str, ServiceType], twin: Twin) -> SearchSpace:
        host = twin.hosts[0]
        return search_space(application, types, cores=host.cores, memory_mib=host.memory_mib)

    def _sweep(
        self,
        application: str,
        program: Program,
        limit_ms: float,
        seconds: float,
        seeds: Sequence[int],
        progress: Callable[[str], None],
    ) -> Sweep:
        def measure(rate: float) -> Step:
            progress(f"{rate:g} requests/s")
            quantities = _quantities(replications(program, rate, seconds, seeds))
            holds = quantities["p95"].value <= limit_ms
            return Step(rate, quantities["p95"], holds, "" if holds else f"p95 above {limit_ms:g} ms")

        steps = list(rising_steps(measure, start_rps=20.0, factor=SWEEP_FACTOR, maximum_rps=HIGHEST_RPS))
        return conclude(application, limit_ms, steps, modelled=True)


def split(points: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """Return the points to fit and the points to validate with.

    A configuration is in the same part whatever the others are; the default is always fitted.
    """
    training: list[Point] = []
    validation: list[Point] = []
    for point in points:
        number = zlib.crc32(repr(sorted(point.configuration.items())).encode())
        kept = point.configuration and number % HELD_OUT == 0
        (validation if kept else training).append(point)
    return training, validation


def simulated(points: Sequence[Point]) -> list[Point]:
    """Return the points that a fit simulates: the default at every rate first, then those with most repetitions."""
    return sorted(points, key=lambda point: (bool(point.configuration), -point.repetitions))[:MOST_POINTS]


def _changed(space: SearchSpace, changes: Mapping[str, Value]) -> Configuration:
    """Return the default with changes.  Raises InputError."""
    for name in changes:
        if name not in space.default():
            raise FieldError("changes", name, nearest(name, space.names))
    try:
        return space.from_default(changes)
    except InvalidValue as error:
        raise InputError(
            FieldName("changes"), f" {error.parameter}: found {error.found!r}; allowed: {error.allowed}"
        ) from None


def _quantities(rows: Sequence[Replication], idle: float = 0.0) -> dict[str, Estimate]:
    """Average replications.  ``idle``: cores that are busy without requests."""
    return {
        "p50": _mean([row.p50_ms for row in rows]),
        "p95": _mean([row.p95_ms for row in rows]),
        "p99": _mean([row.p99_ms for row in rows]),
        "throughput": _mean([row.throughput_rps for row in rows]),
        "failed": _mean([row.failed for row in rows]),
        "cores": _mean([row.cores + idle for row in rows]),
    }


def _mean(values: Sequence[float]) -> Estimate:
    """Return the mean of independent replications with Student's interval of 95 %."""
    from scipy import stats  # here: it takes half a second, which most commands can do without

    value = statistics.fmean(values)
    if not math.isfinite(value):
        return Estimate(math.inf, -math.inf, math.inf, len(values))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(value, value - half, value + half, len(values))


def _ratio(default: Sequence[Replication], changed: Sequence[Replication]) -> Estimate | None:
    """Return the ratio of p95, changed to default, from pairs of replications with the same requests."""
    logs = [math.log(b.p95_ms / a.p95_ms) for a, b in zip(default, changed, strict=True) if a.p95_ms > 0]
    if len(logs) < 2 or not all(map(math.isfinite, logs)):
        return None
    log_ratio = _mean(logs)
    return Estimate(math.exp(log_ratio.value), math.exp(log_ratio.low), math.exp(log_ratio.high), log_ratio.count)
