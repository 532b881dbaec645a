"""What parameters cost: how the CPU time of a service follows its parameters, learnt from CPU counters.

The logarithm of a service's CPU time per request is taken to be a sum of: what this service takes at this rate, what
moved all services alike in these windows (the machine's speed), and for each parameter an exponent times the logarithm
of its value over its default.  Services of a type share their exponents.  Ridge regression (Hoerl & Kennard,
Technometrics 12(1) (1970)), in a second round weighted by what the first left of each type.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from framework.config.space import parameters_of
from framework.model import Application, ParameterDefinition, ServiceType
from framework.twin.fit import Point

PRIOR = 0.3  # standard deviation of an exponent, before anything is known of it
LEAST_SHARE = 0.005  # of the application's CPU time; what a smaller service takes is noise
SURE = 2.0  # standard errors that an exponent is away from 0

Floats = NDArray[np.float64]


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
    design = np.zeros((len(rows), len(columns) + len(levels) + len(counted)))
    for number, ((level, window), logs) in enumerate(zip(rows, ratios, strict=True)):
        for column, value in logs.items():
            design[number, column] = value
        design[number, len(columns) + level] = design[number, len(columns) + len(levels) + window] = 1.0
    if not rows:
        return {}, list(points)
    found, errors = _regression(design, np.array(said), np.array(kinds), len(columns), len(levels))
    effects: dict[str, dict[str, float]] = {}
    for (kind, name), column in columns.items():
        if abs(found[column]) > SURE * errors[column]:
            effects.setdefault(kind, {})[name] = round(float(found[column]), 4)
    slowness = np.exp(found[len(columns) + len(levels) :]).tolist()
    told = {id(one): round(slower, 4) for one, slower in zip(counted, slowness, strict=True)}
    return effects, [one if one.slowness else replace(one, slowness=told.get(id(one))) for one in points]


def _regression(
    design: Floats, said: Floats, kinds: NDArray[np.str_], columns: int, levels: int
) -> tuple[Floats, Floats]:
    """Coefficients of the design's columns and their standard errors."""
    prior = np.full(design.shape[1], PRIOR)
    prior[columns : columns + levels] = 100.0  # what a service takes is not known at all
    deviation = np.full(len(said), 0.1)
    for _ in range(2):
        weighted = design / deviation[:, None]
        covariance = np.linalg.inv(weighted.T @ weighted + np.diag(prior**-2.0))
        found = covariance @ (weighted.T @ (said / deviation))
        left = said - design @ found
        for kind in np.unique(kinds):
            here = kinds == kind
            used = np.count_nonzero(design[here][:, : columns + levels].any(axis=0))  # exponents and levels of its own
            free = max(1, int(here.sum()) - int(used))
            deviation[here] = max(0.01, math.sqrt(float(left[here] @ left[here]) / free))
    return found, np.sqrt(np.diag(covariance))


def _has_ratio(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _log_ratio(parameter: ParameterDefinition, service: str, one: Point) -> float:
    """0 for special values such as "no limit"."""
    value = one.configuration.get(f"{service}.{parameter.name}", parameter.default)
    if not _has_ratio(value):
        return 0.0
    assert isinstance(value, int | float)
    assert isinstance(parameter.default, int | float)
    return math.log(value / parameter.default)
