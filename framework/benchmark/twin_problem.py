"""Twins as problems for the optimizer benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from framework.config.space import parameters_of
from framework.model import Application, ServiceType
from framework.model.twin import Twin
from framework.twin.replication import replications
from framework.twin.translate import compiled
from optimizer.space import Configuration, SearchSpace

REQUESTS = 1_500  # of each simulated run; the geometric mean of the runs' p95 is the truth
SEEDS = (1, 2)
FAILED = 0.001  # fraction of requests that may fail: a limit of measurement.md
MEMORY = 0.8  # fraction of the hosts' memory for caches: beyond it a deployment does not start
WINDOW = 0.03  # standard deviation of log(p95) of a window, added to the spread between runs


class TwinProblem:
    """A problem of ``optimizer.benchmark``: the p95 of a twin.  ``space``: the parameters that are searched.

    ``model``: the twin, its application and the service types.
    """

    family = "twins"

    def __init__(
        self,
        name: str,
        twin: Twin,
        application: Application,
        types: Mapping[str, ServiceType],
        space: SearchSpace,
        rate_rps: float,
    ) -> None:
        self.name = name
        self.space = space
        self._twin, self._application, self._types, self._rate = twin, application, types, rate_rps
        self.model = twin, application, types
        self._sizes = [
            f"{service.name}.{parameter.name}"
            for service in application.services
            for parameter in parameters_of(application, types, service)
            if parameter.role == "cache_bytes" and parameter.unit == "MiB"
        ]
        self._truth = lru_cache(maxsize=256)(self._simulated)

    def truth(self, configuration: Configuration) -> float | None:
        """Return the p95 in ms; None where memory does not suffice or too many requests fail."""
        return self._truth(configuration)

    def _simulated(self, configuration: Configuration) -> float | None:
        sizes = [configuration.get(name, 0) for name in self._sizes]
        memory = sum(float(size) for size in sizes if not isinstance(size, str))
        if memory > MEMORY * sum(host.memory_mib for host in self._twin.hosts):
            return None
        program, _ = compiled(self._twin, self._application, self._types, configuration)
        seconds = max(1.0, REQUESTS / self._rate)
        runs = replications(program, self._rate, seconds, SEEDS)
        if any(run.failed > FAILED for run in runs):
            return None
        return math.exp(math.fsum(math.log(run.p95_ms) for run in runs) / len(runs))

    def noise(self, configuration: Configuration) -> float:
        """Return the standard deviation of log(p95) of a measurement."""
        return math.hypot(self._twin.run_spread, WINDOW)

    def priors(self, configuration: Configuration) -> Mapping[str, float]:
        """Return no priors."""
        return {}
