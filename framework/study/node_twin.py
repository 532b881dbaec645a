"""Sweeps of a node that only the application's twin is: its host with any number of cores, each as fast as measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from framework.errors import UnknownName
from framework.model import Application, Estimate, ServiceType, Step
from framework.model.twin import Twin
from framework.study.node_sweep import Probe, Reading
from framework.twin.replication import replications
from framework.twin.translate import compiled
from optimizer.space import Value

REQUESTS = 20_000  # of a simulated run
SHORTEST_S, LONGEST_S = 8.0, 30.0
RUNS = 4  # whose mean is one window


def on_cores(twin: Twin, cores: int) -> Twin:
    """Return the twin on one host with so many cores, which nothing else uses."""
    host = replace(twin.hosts[0], cores=cores, nodes=1, others=0.0)
    services = tuple(replace(service, host=host.name) for service in twin.services)
    return replace(twin, services=services, hosts=(host,))


def with_requests(twin: Twin, names: Sequence[str]) -> Twin:
    """Return the twin with these kinds of requests alone; all where none is named.  Raises UnknownName.

    ``names``: of operations that clients call.
    """
    known = {name.partition(" ")[2]: name for name in twin.classes}
    for name in names:
        if name not in known:
            raise UnknownName("request", name, known)
    chosen = {known[name]: twin.classes[known[name]] for name in names} if names else dict(twin.classes)
    return replace(twin, classes={name: share / sum(chosen.values()) for name, share in chosen.items()})


def twin_probe(
    twin: Twin,
    application: Application,
    types: Mapping[str, ServiceType],
    configuration: Mapping[str, Value],
    *,
    limit_ms: float,
    seed: int,
    watch: Callable[[Step], None] = lambda step: None,
) -> Probe:
    """Return the probe that asks the twin.  ``types``: resolved for its host."""
    program, _ = compiled(twin, application, types, configuration)
    names = [service.name for service in twin.services]
    seeds = range(seed, seed + RUNS)

    def probe(rate_rps: float) -> Reading:
        seconds = min(LONGEST_S, max(SHORTEST_S, REQUESTS / rate_rps))
        runs = replications(program, rate_rps, seconds, seeds)
        p95_ms, failed = fmean(run.p95_ms for run in runs), fmean(run.failed for run in runs)
        estimate = Estimate(p95_ms, min(run.p95_ms for run in runs), max(run.p95_ms for run in runs), len(runs))
        achieved = sum(run.throughput_rps for run in runs) / sum(run.wanted_rps for run in runs)
        limits, reason = application.limits, ""
        if failed > limits.errors:
            reason = f"{failed:.2%} of the requests failed"
        elif p95_ms > limit_ms:
            reason = f"p95 above {limit_ms:g} ms"
        elif achieved < limits.achieved_rate:
            reason = f"only {achieved:.1%} of the wanted rate was answered"
        step = Step(rate_rps, estimate, not reason, reason)
        watch(step)
        taken = {name: fmean(run.cpu_s[place] for run in runs) for place, name in enumerate(names)}
        return Reading(step, {name: seconds for name, seconds in taken.items() if seconds > 0})

    return probe
