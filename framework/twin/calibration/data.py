"""Calibration data of a twin from recorded studies: traces at the lowest rate, CPU counters, the content of caches, and
every configuration that has a value.

The data can be kept in a file, so that a twin can be calibrated again without the studies.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from framework.config.reading import RECORD_BYTES, read_text
from framework.config.space import parameters_of
from framework.config.writing import write_text
from framework.errors import FileError, InputError
from framework.model import Application, Measurement, ServiceType, Study, Trial, cpu_us_per_request
from framework.model.documents import decode, encode
from framework.model.spans import unpacked
from framework.ports.store import ArtefactStore, StudyStore
from framework.twin.calibration.assemble import CacheEvidence, Evidence
from framework.twin.calibration.fit import Point
from framework.twin.calibration.structure import Structure, structure
from optimizer.space import SearchSpace

KIND, VERSION = "twin-evidence", 2
OTHERS = "others"  # generator and Tailor; the trace store is a service
CALM = 0.5  # of the machine's CPU: above it, the CPU time of a request grows with the load


@dataclass(frozen=True, slots=True)
class CalibrationData:
    """Data of a calibration.  ``rate_rps``: of the traces.  ``path_ms``: of each service in their window, the mean time
    on the critical path.  ``sources``: ids of studies.
    """

    application: str
    sources: tuple[str, ...]
    rate_rps: float
    structure: Structure
    evidence: Evidence
    path_ms: Mapping[str, float]
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class _CpuUse:
    """CPU use of a service: cores without requests, and the CPU time that each request adds."""

    idle_cores: float
    per_request_us: float


@dataclass(frozen=True, slots=True)
class _Window:
    """One valid repetition, with its trial, its study and its request rate."""

    study: Study
    trial: Trial
    measurement: Measurement
    rate_rps: float


def recorded(
    application: Application,
    types: Mapping[str, ServiceType],
    studies: Sequence[str],
    store: StudyStore,
    artefacts: ArtefactStore,
) -> CalibrationData:
    """Collect the calibration data of studies of one application.

    Raises InputError where no study kept traces, or one is of another application or modelled; NotFound.
    """
    windows: list[_Window] = []
    for name in studies:
        study = store.get(name)
        if study.directory.name != application.directory.name:  # only the name: it may be another clone
            raise InputError(f"study {study.id} is of {study.directory}, not of {application.directory}")
        if study.modelled:
            raise InputError(f"study {study.id} was modelled; a twin is made from what was measured")
        windows += [
            _Window(study, trial, measurement, measurement.rate_rps or _rate(trial, study))
            for trial in store.trials(study.id)
            for measurement in trial.measurements
            if not measurement.invalid and "p95" in measurement.quantities
        ]
    windows = _below_saturation(windows)
    traced = [window for window in windows if window.measurement.spans]
    if not traced:
        raise InputError(
            f"none of {', '.join(studies)} has kept traces of the default; "
            f"run: tailor sweep {application.directory} (or a study), and name what it recorded"
        )
    lowest = min(traced, key=lambda window: window.rate_rps)
    spans = unpacked(artefacts.get(lowest.measurement.spans))
    return CalibrationData(
        application=application.name,
        sources=tuple(dict.fromkeys(window.study.id for window in windows)),
        rate_rps=lowest.rate_rps,
        structure=structure(spans, application.entry, application.peers),
        evidence=_evidence(application, types, lowest, windows),
        path_ms={time.service: time.path_ms.value for time in lowest.measurement.services},
        points=_points(windows, _tick_us(windows)),
    )


def _rate(trial: Trial, study: Study) -> float:
    """Return the only request rate of a trial; that of a sweep's trial stands in its label."""
    return float(trial.label.removesuffix("/s")) if trial.purpose == "probe" else study.plan.rate_rps


def _below_saturation(windows: Sequence[_Window]) -> list[_Window]:
    """Drop the windows of each configuration from the lowest rate on at which it was infeasible.

    There a queue grows without end, so that latencies depend on the window's length more than on the application.
    """
    ends: dict[str, float] = {}
    for window in windows:
        if window.measurement.infeasible:
            key = _identity(window)
            ends[key] = min(ends.get(key, math.inf), window.rate_rps)
    return [window for window in windows if window.rate_rps < ends.get(_identity(window), math.inf)]


def _identity(window: _Window) -> str:
    """Return a key of the window's study and configuration."""
    return json.dumps([window.study.id, sorted(window.trial.configuration.items())])


def _evidence(
    application: Application, types: Mapping[str, ServiceType], lowest: _Window, windows: Sequence[_Window]
) -> Evidence:
    """Return the counters of all windows of the study of ``lowest``: at several rates, where it is a sweep."""
    machine = lowest.study.machine
    tick_us = _tick_us(windows)
    used = _cpu_use(lowest, [window for window in windows if window.study.id == lowest.study.id], tick_us)
    return Evidence(
        cores=machine.cores,
        memory_mib=machine.memory_mib,
        cpu_us={name: use.per_request_us for name, use in used.items() if name != OTHERS},
        others_us=used[OTHERS].per_request_us,
        tick_us=round(tick_us, 4),
        slowness=round((lowest.measurement.tick_us or tick_us) / tick_us, 4) if tick_us else 1.0,
        idle=round(math.fsum(use.idle_cores for use in used.values()), 4),
        caches=_caches(application, types, lowest),
        run_spread=_run_spread(windows),
    )


def _cpu_use(lowest: _Window, windows: Sequence[_Window], tick_us: float) -> dict[str, _CpuUse]:
    """Return the CPU use of each service, and under ``OTHERS`` of all else, in calm windows of the default.

    Times are scaled to the machine's mean speed over all of the evidence, whose mean tick is ``tick_us`` (0: unknown).
    """
    from scipy.optimize import nnls  # here, because only a calibration needs it

    default = SearchSpace.from_dict(lowest.study.space).default()
    calm = [w for w in windows if w.trial.configuration == default and sum(w.measurement.cpu.values()) < CALM]
    calm = calm or [lowest]
    rates = np.array([window.measurement.requests / window.study.plan.window_s for window in calm])
    spent = [_spent_s(window) for window in calm]
    slowness = np.array([(window.measurement.tick_us or tick_us) / tick_us if tick_us else 1.0 for window in calm])
    use = {}
    for name in dict.fromkeys(name for cpu_s in spent for name in cpu_s):
        # cores = idle + rate * per request, divided by the rate so that every rate has equal weight.
        per_request = np.array([s.get(name, 0.0) for s in spent]) / [window.measurement.requests for window in calm]
        per_request = per_request / slowness
        idle, slope = 0.0, float(np.mean(per_request))
        if len({window.rate_rps for window in calm}) > 2:
            (idle, slope), _ = nnls(np.column_stack([1.0 / rates, np.ones(len(rates))]), per_request)
        use[name] = _CpuUse(float(idle), 1e6 * float(slope))
    return use


def _spent_s(window: _Window) -> dict[str, float]:
    """Return the CPU seconds of each service, and under ``OTHERS`` of the load generator and Tailor."""
    measurement = window.measurement
    cores = window.study.machine.cores * sum(measurement.cpu.get(name, 0.0) for name in ("generator", "tailor"))
    return {**measurement.service_cpu_s, OTHERS: cores * window.study.plan.window_s}


def _caches(application: Application, types: Mapping[str, ServiceType], window: _Window) -> dict[str, CacheEvidence]:
    """Return the content and the hit ratio of each service that has a cache size and counts its hits."""
    caches = {}
    default = SearchSpace.from_dict(window.study.space).default()
    for service in application.services:
        counters = window.measurement.statistics.get(service.name, {})
        sizes = [
            default.get(f"{service.name}.{parameter.name}", service.fixed.get(parameter.name, parameter.default))
            for parameter in parameters_of(application, types, service)
            if parameter.role == "cache_bytes" and parameter.unit == "MiB"
        ]
        hits, misses, items = (counters.get(name, 0.0) for name in ("hits", "misses", "items"))
        if not sizes or isinstance(sizes[0], str) or not items or not counters.get("bytes") or not hits + misses:
            continue
        caches[service.name] = CacheEvidence(
            hit_ratio=hits / (hits + misses),
            items=int(items),
            item_kib=counters["bytes"] / items / 1024,
            memory_mib=float(sizes[0]),
            catalogue=int(items + counters.get("evictions", 0.0)),  # each eviction made room for another item
        )
    return caches


def _run_spread(windows: Sequence[_Window]) -> float:
    """Return the standard deviation of log(median) between repetitions of a trial at a rate, pooled over the trials."""
    groups: dict[tuple[str, int, float], list[float]] = defaultdict(list)
    for window in windows:
        groups[window.study.id, window.trial.number, window.rate_rps].append(
            math.log(window.measurement.quantities["p50"].value)
        )
    repeated = [values for values in groups.values() if len(values) > 1]
    if not repeated:
        return 0.0
    squares = math.fsum(statistics.variance(values) * (len(values) - 1) for values in repeated)
    return math.sqrt(squares / sum(len(values) - 1 for values in repeated))


def _tick_us(windows: Sequence[_Window]) -> float:
    """Return the geometric mean duration of a tick; 0 where some window has none."""
    ticks = [window.measurement.tick_us or 0.0 for window in windows]
    return statistics.geometric_mean(ticks) if all(ticks) else 0.0


def _points(windows: Sequence[_Window], tick_us: float) -> tuple[Point, ...]:
    """Return a point for each configuration and rate: geometric means over its repetitions."""
    groups: dict[str, list[_Window]] = defaultdict(list)
    changed: dict[str, dict[str, Any]] = {}
    for window in windows:
        default = SearchSpace.from_dict(window.study.space).default()
        differing = {k: v for k, v in sorted(window.trial.configuration.items()) if default.get(k) != v}
        key = json.dumps([window.rate_rps, differing], sort_keys=True)
        groups[key].append(window)
        changed[key] = differing
    return tuple(
        Point(
            configuration=changed[key],
            rate_rps=rows[0].rate_rps,
            p50_ms=_geometric_mean(rows, "p50"),
            p95_ms=_geometric_mean(rows, "p95"),
            repetitions=len(rows),
            cores=_cores(rows),
            cpu_us={name: round(us, 1) for name, us in cpu_us_per_request([r.measurement for r in rows]).items()},
            slowness=round(_tick_us(rows) / tick_us, 4) if tick_us else None,
        )
        for key, rows in groups.items()
    )


def _cores(rows: Sequence[_Window]) -> float:
    """Return the mean number of cores busy with the application, the load generator and the trace store."""
    return round(statistics.fmean(sum(row.measurement.cpu.values()) * row.study.machine.cores for row in rows), 4)


def _geometric_mean(rows: Sequence[_Window], quantity: str) -> float:
    return round(statistics.geometric_mean([row.measurement.quantities[quantity].value for row in rows]), 4)


# ---------------------------------------------------------------------- as a file


def write_evidence(data: CalibrationData, path: Path) -> Path:
    """Write calibration data to a file.  Raises InputError."""
    return write_text(path, json.dumps({"kind": KIND, "version": VERSION, **encode(data)}) + "\n")


def read_evidence(path: Path) -> CalibrationData:
    """Read calibration data from a file.  Raises FileError."""
    try:
        document = json.loads(read_text(path, RECORD_BYTES))
    except (ValueError, RecursionError) as error:
        raise FileError(path, "", str(error), "a file that `tailor twin evidence` wrote") from None
    if not isinstance(document, dict) or (document.pop("kind", None), document.pop("version", None)) != (KIND, VERSION):
        raise FileError(path, "kind", "something else", f"{KIND}, version {VERSION}")
    try:
        return decode(CalibrationData, document)
    except (TypeError, ValueError, AttributeError) as error:
        raise FileError(path, "", str(error), "a file that `tailor twin evidence` wrote") from None


def merged(parts: Sequence[CalibrationData]) -> CalibrationData:
    """Merge data: structure and counters of the part with the lowest rate, points of all parts.

    The slowness of the points is relative to that part.  Raises InputError where parts are of several applications.
    """
    applications = sorted({part.application for part in parts})
    if len(applications) > 1:
        raise InputError(f"evidence of several applications: {', '.join(applications)}")
    lowest = min(parts, key=lambda part: part.rate_rps)
    return CalibrationData(
        application=lowest.application,
        sources=tuple(dict.fromkeys(source for part in parts for source in part.sources)),
        rate_rps=lowest.rate_rps,
        structure=lowest.structure,
        evidence=lowest.evidence,
        path_ms=lowest.path_ms,
        points=tuple(_relative_to(lowest, point, part) for part in parts for point in part.points),
    )


def _relative_to(reference: CalibrationData, point: Point, part: CalibrationData) -> Point:
    """Return a point of ``part`` with its slowness relative to the reference; None where a tick is missing."""
    if part is reference:
        return point
    if not (point.slowness and part.evidence.tick_us and reference.evidence.tick_us):
        return replace(point, slowness=None)
    return replace(point, slowness=round(point.slowness * part.evidence.tick_us / reference.evidence.tick_us, 4))
