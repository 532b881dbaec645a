"""What recorded studies say of an application, for its twin: traces at the lowest rate, CPU counters, what its caches
held, and every configuration that has a value.

The same can be kept in a file, so that a twin can be made again where the studies are not.
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
CALM = 0.5  # of the machine's CPU: above it, what a request costs grows with the load


@dataclass(frozen=True, slots=True)
class CalibrationData:
    """``rate_rps``: of the traces.  ``path_ms``: of each service in the same window.  ``sources``: studies."""

    application: str
    sources: tuple[str, ...]
    rate_rps: float
    structure: Structure
    evidence: Evidence
    path_ms: Mapping[str, float]
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class _Used:
    """CPU of a service: cores without requests, and what each request adds."""

    idle_cores: float
    per_request_us: float


@dataclass(frozen=True, slots=True)
class _Window:
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
    """The evidence of studies of one application.  Raises InputError where there are no traces, NotFound."""
    windows: list[_Window] = []
    for name in studies:
        study = store.get(name)
        if study.directory.name != application.directory.name:  # it may have been a clone's
            raise InputError(f"study {study.id} is of {study.directory}, not of {application.directory}")
        if study.modelled:
            raise InputError(f"study {study.id} was modelled; a twin is made from what was measured")
        windows += [
            _Window(study, trial, one, _rate(trial, study))
            for trial in store.trials(study.id)
            for one in trial.measurements
            if not one.invalid and "p95" in one.quantities
        ]
    windows = _answered(windows)
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
        structure=structure(spans, application.entry, application.tracing.peers),
        evidence=_evidence(application, types, lowest, windows),
        path_ms={one.service: one.path_ms.value for one in lowest.measurement.services},
        points=_points(windows, _tick_us(windows)),
    )


def _rate(trial: Trial, study: Study) -> float:
    """A sweep's trials say their rate, since it is not their study's."""
    return float(trial.label.removesuffix("/s")) if trial.purpose == "probe" else study.plan.rate_rps


def _answered(windows: Sequence[_Window]) -> list[_Window]:
    """Without those of a configuration at the lowest rate that it did not answer in full, and above.

    There a queue grows as long as one looks, so that latencies say more about the window than about the application.
    """
    ends: dict[str, float] = {}
    for window in windows:
        if window.measurement.infeasible:
            key = _identity(window)
            ends[key] = min(ends.get(key, math.inf), window.rate_rps)
    return [window for window in windows if window.rate_rps < ends.get(_identity(window), math.inf)]


def _identity(window: _Window) -> str:
    """Of the study and the configuration."""
    return json.dumps([window.study.id, sorted(window.trial.configuration.items())])


def _evidence(
    application: Application, types: Mapping[str, ServiceType], lowest: _Window, windows: Sequence[_Window]
) -> Evidence:
    """The counters of the same study's windows: of several rates, where it is a sweep."""
    machine = lowest.study.machine
    tick_us = _tick_us(windows)
    used = _used(lowest, [one for one in windows if one.study.id == lowest.study.id], tick_us)
    return Evidence(
        cores=machine.cores,
        memory_mib=machine.memory_mib,
        cpu_us={name: one.per_request_us for name, one in used.items() if name != OTHERS},
        others_us=used[OTHERS].per_request_us,
        tick_us=round(tick_us, 4),
        slowness=round((lowest.measurement.tick_us or tick_us) / tick_us, 4) if tick_us else 1.0,
        idle=round(math.fsum(one.idle_cores for one in used.values()), 4),
        caches=_caches(application, types, lowest),
        run_spread=_run_spread(windows),
    )


def _used(lowest: _Window, windows: Sequence[_Window], tick_us: float) -> dict[str, _Used]:
    """Of each service and of all others together, from the default's windows with a machine that is not crowded.

    For the machine as fast as in all of the evidence, whose mean tick is ``tick_us`` (0: not known).
    """
    from scipy.optimize import nnls  # here, because only a calibration needs it

    default = SearchSpace.from_dict(lowest.study.space).default()
    calm = [one for one in windows if one.trial.configuration == default and sum(one.measurement.cpu.values()) < CALM]
    calm = calm or [lowest]
    rates = np.array([one.measurement.requests / one.study.plan.window_s for one in calm])
    spent = [_spent_s(one) for one in calm]
    slowness = np.array([(one.measurement.tick_us or tick_us) / tick_us if tick_us else 1.0 for one in calm])
    found = {}
    for name in dict.fromkeys(name for one in spent for name in one):
        # cores = idle + rate * per request; per request, so that every rate has the same say.
        per_request = np.array([one.get(name, 0.0) for one in spent]) / [one.measurement.requests for one in calm]
        per_request = per_request / slowness
        idle, slope = 0.0, float(np.mean(per_request))
        if len({one.rate_rps for one in calm}) > 2:
            (idle, slope), _ = nnls(np.column_stack([1.0 / rates, np.ones(len(rates))]), per_request)
        found[name] = _Used(float(idle), 1e6 * float(slope))
    return found


def _spent_s(window: _Window) -> dict[str, float]:
    """CPU time of each service, and of what is not the application."""
    one = window.measurement
    cores = window.study.machine.cores * sum(one.cpu.get(name, 0.0) for name in ("generator", "tailor"))
    return {**one.service_cpu_s, OTHERS: cores * window.study.plan.window_s}


def _caches(application: Application, types: Mapping[str, ServiceType], window: _Window) -> dict[str, CacheEvidence]:
    """Of each service with a size and hits: what it held, and how often it had what was asked for."""
    found = {}
    space = SearchSpace.from_dict(window.study.space).default()
    for service in application.services:
        counted = window.measurement.statistics.get(service.name, {})
        sizes = [
            space.get(f"{service.name}.{one.name}", service.fixed.get(one.name, one.default))
            for one in parameters_of(application, types, service)
            if one.role == "cache_bytes" and one.unit == "MiB"
        ]
        hits, misses, items = (counted.get(name, 0.0) for name in ("hits", "misses", "items"))
        if not sizes or isinstance(sizes[0], str) or not items or not counted.get("bytes") or not hits + misses:
            continue
        found[service.name] = CacheEvidence(
            hit_ratio=hits / (hits + misses),
            items=int(items),
            item_kib=counted["bytes"] / items / 1024,
            memory_mib=float(sizes[0]),
            catalogue=int(items + counted.get("evictions", 0.0)),  # each eviction made room for another item
        )
    return found


def _run_spread(windows: Sequence[_Window]) -> float:
    """Between runs of one configuration at one rate: standard deviation of log(median), pooled over the trials."""
    groups: dict[tuple[str, int], list[float]] = defaultdict(list)
    for window in windows:
        groups[window.study.id, window.trial.number].append(math.log(window.measurement.quantities["p50"].value))
    repeated = [values for values in groups.values() if len(values) > 1]
    if not repeated:
        return 0.0
    squares = math.fsum(statistics.variance(values) * (len(values) - 1) for values in repeated)
    return math.sqrt(squares / sum(len(values) - 1 for values in repeated))


def _tick_us(windows: Sequence[_Window]) -> float:
    """The mean time of a tick (geometric); 0 where some window has none."""
    ticks = [one.measurement.tick_us or 0.0 for one in windows]
    return statistics.geometric_mean(ticks) if all(ticks) else 0.0


def _points(windows: Sequence[_Window], tick_us: float) -> tuple[Point, ...]:
    """A point for each configuration and rate: geometric means over its repetitions."""
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
            changed[key], rows[0].rate_rps, _typical(rows, "p50"), _typical(rows, "p95"), len(rows), _cores(rows),
            {name: round(us, 1) for name, us in cpu_us_per_request([one.measurement for one in rows]).items()},
            round(_tick_us(rows) / tick_us, 4) if tick_us else None,
        )
        for key, rows in groups.items()
    )  # fmt: skip


def _cores(rows: Sequence[_Window]) -> float:
    """Busy with the application and all that was measured with it, on average."""
    return round(statistics.fmean(sum(one.measurement.cpu.values()) * one.study.machine.cores for one in rows), 4)


def _typical(rows: Sequence[_Window], quantity: str) -> float:
    return round(statistics.geometric_mean([one.measurement.quantities[quantity].value for one in rows]), 4)


# ---------------------------------------------------------------------- as a file


def write_evidence(found: CalibrationData, path: Path) -> Path:
    """Keep the evidence in a file.  Raises InputError."""
    return write_text(path, json.dumps({"kind": KIND, "version": VERSION, **encode(found)}) + "\n")


def read_evidence(path: Path) -> CalibrationData:
    """The evidence of a file.  Raises FileError."""
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
    """The structure and counters of the part with the lowest rate, the points of all.

    Their slowness is against that part.  Raises InputError.
    """
    if len({one.application for one in parts}) > 1:
        raise InputError(f"evidence of several applications: {', '.join(sorted({one.application for one in parts}))}")
    lowest = min(parts, key=lambda one: one.rate_rps)
    return CalibrationData(
        application=lowest.application,
        sources=tuple(dict.fromkeys(source for one in parts for source in one.sources)),
        rate_rps=lowest.rate_rps,
        structure=lowest.structure,
        evidence=lowest.evidence,
        path_ms=lowest.path_ms,
        points=tuple(_against(point, one, lowest) for one in parts for point in one.points),
    )


def _against(point: Point, part: CalibrationData, reference: CalibrationData) -> Point:
    """A point with its slowness against another part of the evidence."""
    if part is reference:
        return point
    if not (point.slowness and part.evidence.tick_us and reference.evidence.tick_us):
        return replace(point, slowness=None)
    return replace(point, slowness=round(point.slowness * part.evidence.tick_us / reference.evidence.tick_us, 4))
