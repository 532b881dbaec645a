"""One run of one optimizer on one problem, in the order of a study: the default, then ask, measure, tell."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np

from optimizer import registry
from optimizer.base import Optimizer
from optimizer.benchmark.problem import Problem, measured
from optimizer.benchmark.table import Table
from optimizer.errors import SearchExhausted
from optimizer.models.simulator_prior import Modelled
from optimizer.space import Configuration, Value


@dataclass(frozen=True)
class Run:
    """One run.  ``values``: true value of the recommendation, after the default (index 0) and each evaluation.

    ``ask_s``: seconds of each ask, the first one with the optimizer's imports.  ``failures``: number of failed trials.
    ``origin``: digest of code and problem (``optimizer.benchmark.origin``), where it is known.
    """

    optimizer: str
    problem: str
    family: str
    seed: int
    values: tuple[float, ...]
    ask_s: tuple[float, ...]
    failures: int
    origin: str = ""


def run(
    optimizer: str,
    problem: Problem,
    seed: int,
    evaluations: int,
    *,
    options: Mapping[str, Value] | None = None,
    guided: bool = False,
    modelled: Sequence[Modelled] = (),
    label: str = "",
) -> Run:
    """Run an optimizer on a problem.

    ``optimizer``: a plug-in's name, or "module:Class".  ``guided``: the optimizer is told the priors.  ``modelled``:
    predictions of a model of the problem, for an optimizer that learns from one.  ``label``: its name in tables,
    where it has options.  All optimizers see the same noise at the same evaluation (common random numbers).  Raises
    PluginError, InvalidInput.
    """
    default = problem.space.default()
    known: dict[str, Any] = {**(options or {}), **({"modelled": modelled} if modelled else {})}
    kind = kind_of(optimizer)
    registry.check_options(kind, options or {})
    search = kind(problem.space, seed=seed, budget=evaluations, start=default, **known)
    key = zlib.crc32(problem.name.encode())
    search.tell([measured(problem, default, np.random.default_rng([key, seed, 0]), guided=guided)])
    values, ask_s, failures = [_truth(problem, default)], [], 0
    for index in range(1, evaluations + 1):
        began = time.perf_counter()
        try:
            [suggestion] = search.ask()
        except SearchExhausted:
            values += [values[-1]] * (evaluations + 1 - index)
            break
        ask_s.append(time.perf_counter() - began)
        rng = np.random.default_rng([key, seed, index])
        configuration = suggestion.configuration
        if isinstance(problem, Table):
            configuration = problem.measurable(configuration)
        observation = measured(problem, configuration, rng, suggestion.ask, guided=guided)
        failures += observation.value is None
        search.tell([observation])
        best = search.recommend()
        values.append(_truth(problem, default if best is None else best))
    return Run(label or optimizer, problem.name, problem.family, seed, tuple(values), tuple(ask_s), failures)


def kind_of(optimizer: str) -> type[Optimizer]:
    """Return the class for a plug-in's name or for "module:Class".  Raises PluginError, UnknownOptimizer."""
    if ":" not in optimizer:
        return registry.load(optimizer)
    entry = EntryPoint(optimizer.rpartition(":")[2], optimizer, registry.GROUP)
    return registry.load_entry(entry)


def _truth(problem: Problem, configuration: Configuration) -> float:
    value = problem.truth(configuration)
    if value is None:
        raise ValueError(f"{problem.name}: a failing configuration was recommended")
    return value
