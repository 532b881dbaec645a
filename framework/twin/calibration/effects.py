"""Effects of parameters on the CPU time of services, learnt from CPU counters by ridge regression.

The logarithm of a service's CPU time per request is modelled as the sum of a level of this service at this rate, an
effect of the window that is common to all services (the machine's speed), and for each parameter an exponent times the
logarithm of its value over its default.  Services of a type share their exponents and the variance of their error.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from framework.config.space import parameters_of
from framework.model import Application, ParameterDefinition, ServiceType
from framework.twin.calibration.fit import Point
from optimizer.models.ridge import ridge

PRIOR = 0.3  # standard deviation of an exponent, before anything is known of it
LEAST_SHARE = 0.005  # of the application's CPU time; the CPU time of a smaller service is noise
SURE = 2.0  # standard errors: an exponent that is nearer to 0 is left out


def learnt_effects(
    application: Application, types: Mapping[str, ServiceType], points: Sequence[Point]
) -> tuple[dict[str, dict[str, float]], list[Point]]:
    """Return type -> parameter -> exponent, and the points with the machine's slowness.

    Exponents that are not surely different from 0 are left out; empty where no point has CPU counters.  A point without
    a slowness from ticks gets the one from CPU counters.
    """
    counted = [point for point in points if point.cpu_us]
    type_of = {service.name: service.type for service in application.services}
    parameters = {
        service.name: [p for p in parameters_of(application, types, service) if _has_ratio(p.default)]
        for service in application.services
    }
    columns = {
        key: number
        for number, key in enumerate(
            dict.fromkeys((type_of[name], p.name) for name, own in parameters.items() for p in own)
        )
    }
    levels: dict[tuple[str, float], int] = defaultdict(lambda: len(levels))
    rows, kinds, logs_us, ratios = [], [], [], []
    for window, point in enumerate(counted):
        least = LEAST_SHARE * sum(point.cpu_us.values())
        for name, own in parameters.items():
            if point.cpu_us.get(name, 0.0) <= least:
                continue
            rows.append((levels[name, point.rate_rps], window))
            kinds.append(type_of[name])
            logs_us.append(math.log(point.cpu_us[name]))
            ratios.append({columns[type_of[name], p.name]: _log_ratio(p, name, point) for p in own})
    if not rows:
        return {}, list(points)
    windows = len(columns) + len(levels)  # the first column of a window
    design = np.zeros((len(rows), windows + len(counted)))
    for number, ((level, window), logs) in enumerate(zip(rows, ratios, strict=True)):
        for column, value in logs.items():
            design[number, column] = value
        design[number, len(columns) + level] = design[number, windows + window] = 1.0
    prior = np.full(design.shape[1], PRIOR)
    prior[len(columns) : windows] = 100.0  # the level of a service is not known at all
    weights, errors = ridge(design, np.array(logs_us), np.array(kinds), prior, windows)
    effects: dict[str, dict[str, float]] = {}
    for (kind, name), column in columns.items():
        if abs(weights[column]) > SURE * errors[column]:
            effects.setdefault(kind, {})[name] = round(float(weights[column]), 4)
    fitted = iter(np.exp(weights[windows:]).round(4).tolist())
    slownesses = [next(fitted) if point.cpu_us else None for point in points]
    return effects, [
        p if p.slowness else replace(p, slowness=slowness) for p, slowness in zip(points, slownesses, strict=True)
    ]


def _has_ratio(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _log_ratio(parameter: ParameterDefinition, service: str, point: Point) -> float:
    """Return the logarithm of a parameter's value over its default; 0 for special values such as "no limit"."""
    value = point.configuration.get(f"{service}.{parameter.name}", parameter.default)
    return math.log(value / parameter.default) if _has_ratio(value) and _has_ratio(parameter.default) else 0.0
