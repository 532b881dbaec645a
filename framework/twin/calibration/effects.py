"""What parameters cost: how the CPU time of a service follows its parameters, learnt from CPU counters.

The logarithm of a service's CPU time per request is taken to be a sum of: what this service takes at this rate, what
moved all services alike in these windows (the machine's speed), and for each parameter an exponent times the logarithm
of its value over its default.  Services of a type share their exponents, and err alike.
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
LEAST_SHARE = 0.005  # of the application's CPU time; what a smaller service takes is noise
SURE = 2.0  # standard errors that an exponent is away from 0


def learnt_effects(
    application: Application, types: Mapping[str, ServiceType], points: Sequence[Point]
) -> tuple[dict[str, dict[str, float]], list[Point]]:
    """Type -> parameter -> exponent, of those that are surely not 0; empty where there is too little to learn from.

    And the points with the machine's slowness as counters tell it, where ticks have not.
    """
    counted = [one for one in points if one.cpu_us]
    type_of = {one.name: one.type for one in application.services}
    parameters = {
        service.name: [one for one in parameters_of(application, types, service) if _has_ratio(one.default)]
        for service in application.services
    }
    columns = {
        key: number
        for number, key in enumerate(
            dict.fromkeys((type_of[name], one.name) for name, theirs in parameters.items() for one in theirs)
        )
    }
    levels: dict[tuple[str, float], int] = defaultdict(lambda: len(levels))
    rows, kinds, said, ratios = [], [], [], []
    for window, one in enumerate(counted):
        least = LEAST_SHARE * sum(one.cpu_us.values())
        for name, theirs in parameters.items():
            if one.cpu_us.get(name, 0.0) <= least:
                continue
            rows.append((levels[name, one.rate_rps], window))
            kinds.append(type_of[name])
            said.append(math.log(one.cpu_us[name]))
            ratios.append({columns[type_of[name], p.name]: _log_ratio(p, name, one) for p in theirs})
    if not rows:
        return {}, list(points)
    own = len(columns) + len(levels)
    design = np.zeros((len(rows), own + len(counted)))
    for number, ((level, window), logs) in enumerate(zip(rows, ratios, strict=True)):
        for column, value in logs.items():
            design[number, column] = value
        design[number, len(columns) + level] = design[number, own + window] = 1.0
    prior = np.full(design.shape[1], PRIOR)
    prior[len(columns) : own] = 100.0  # what a service takes is not known at all
    found, errors = ridge(design, np.array(said), np.array(kinds), prior, own)
    effects: dict[str, dict[str, float]] = {}
    for (kind, name), column in columns.items():
        if abs(found[column]) > SURE * errors[column]:
            effects.setdefault(kind, {})[name] = round(float(found[column]), 4)
    slowness = iter(np.exp(found[own:]).round(4).tolist())
    told = [next(slowness) if one.cpu_us else None for one in points]
    return effects, [
        one if one.slowness else replace(one, slowness=slower) for one, slower in zip(points, told, strict=True)
    ]


def _has_ratio(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _log_ratio(parameter: ParameterDefinition, service: str, one: Point) -> float:
    """0 for special values such as "no limit"."""
    value = one.configuration.get(f"{service}.{parameter.name}", parameter.default)
    return math.log(value / parameter.default) if _has_ratio(value) and _has_ratio(parameter.default) else 0.0
