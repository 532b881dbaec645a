"""Evaluation of one repetition: its quantities with intervals, the objective's value, and whether it counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from framework.errors import InputError, MeasurementInvalid
from framework.model import Application, Estimate, Limits, LoadResult, Measurement, Objective, ServiceTime
from framework.model.estimates import mean, probability_of, proportion, quantile, rate
from framework.model.spans import SpanTable
from framework.objective import checks
from framework.objective.cost import cost_per_hour
from framework.objective.energy import joules_per_request
from framework.objective.warmup import warmup_s
from framework.objective.window import (
    Window,
    cores_used,
    joined_share,
    machine_of,
    memory_of,
    root_latency_ms,
    window_of,
)

REPORTED = ("mean", "p50", "p95", "p99", "throughput")
"""Quantities that are always measured; an objective may name other quantiles too."""


def evaluate(
    load: LoadResult,
    spans: SpanTable,
    *,
    application: Application,
    rate_rps: float,
    created: int | None,
    repetition: int = 0,
    attempt: int = 0,
    statistics: Mapping[str, Mapping[str, float]] | None = None,
    phases: Mapping[str, float] | None = None,
    services: Sequence[ServiceTime] = (),
    traced: bool = True,
) -> Measurement:
    """Evaluate a repetition.

    ``spans``: those of the traces whose root starts in the window.  ``created``: spans created in the window by the
    services and the generator; None when the services do not count theirs.  ``rate_rps``: the rate that was asked
    for.  ``traced`` False: the load ran without tracing, so latencies are the generator's and no check of spans is
    made.  Where the generator kept its root spans, latencies are its own too.  A repetition that is invalid or
    infeasible has no value.  Raises InputError for an unknown quantity of the objective.
    """
    window = window_of(load)
    machine = machine_of(load, application.tracing_service)
    roots = root_latency_ms(spans)
    # Without a root span the repetition is invalid (span_counts says so); the generator's numbers still describe it.
    latency = roots if traced and len(roots) and load.ids is None else window.latency_ms
    limits = application.limits
    lost, apart = _checked_spans(load, spans, created, len(roots), limits) if traced else ((), ())
    invalid = [*checks.schedule(window, rate_rps, limits, load), *checks.machine(machine, limits), *lost]
    infeasible = [*checks.infeasible(window, limits)]
    warnings = [*checks.warnings(window, created if traced and load.ids is None else 0, machine, load), *apart]
    quantities: dict[str, Estimate] = {}
    generator_p95, value = math.inf, None
    if window.requests and len(latency):
        used, memory = cores_used(load, machine), memory_of(load, application.tracing_service)
        quantities = _quantities(latency, window, application.objective, _Used(used, memory, machine.shares))
        generator_p95 = quantile(window.latency_ms, 0.95).value
        value = combine(application.objective, quantities)
        invalid += checks.lag(window, quantities["p95"].value, limits)
        invalid += checks.agreement(quantities["p95"].value, generator_p95, limits)
        infeasible += [] if infeasible else checks.finite(value, window)
        # Under overload a queue grows: latency then moves because of the configuration, not of a disturbance.
        (warnings if infeasible else invalid).extend(checks.stationary(latency, limits, load))
    needed, unsettled = _warmup(load)
    return Measurement(
        repetition=repetition,
        attempt=attempt,
        invalid=tuple(invalid),
        infeasible=tuple(infeasible),
        value=None if invalid or infeasible else value,
        quantities=quantities,
        requests=window.requests,
        failed_requests=window.failed,
        achieved_rps=window.completed / window.seconds,
        wanted_rps=window.requests / window.seconds,
        lag_p99_ms=_lag_p99_ms(load, window),
        generator_p95_ms=generator_p95,
        spans_created=created,
        spans_read=len(spans),
        stolen_cpu=machine.stolen,
        pressure_cpu=machine.pressure,
        cpu=machine.shares,
        service_cpu_s=machine.service_cpu_s,
        services=tuple(services),
        statistics=dict(statistics or {}),
        phases=dict(phases or {}),
        latencies_ms=latency.astype(np.float32),
        warnings=(*warnings, *unsettled),
        warmup_needed_s=needed,
        tick_us=load.tick_us,
        joined=joined_share(spans) if traced else None,
    )


def _checked_spans(
    load: LoadResult, spans: SpanTable, created: int | None, roots: int, limits: Limits
) -> tuple[Sequence[str], Sequence[str]]:
    """Return why spans make a window invalid, and warnings about them.

    Where the generator kept its root spans none of them can be lost, and what was read by their ids may be a sample.
    """
    share, traces = joined_share(spans), len(spans.traces)
    if load.ids is not None:
        return (), tuple(checks.joined(share, traces, len(load.sample)))
    lost = tuple(checks.span_counts(len(spans), created, roots, load, limits))
    return lost, tuple(checks.joined(share, traces, None))


def combine(objective: Objective, quantities: Mapping[str, Estimate]) -> float | None:
    """Return the objective's linear combination; None when failed requests make it infinite."""
    total = sum(term.weight * quantities[term.quantity].value for term in objective.terms if term.weight)
    return total if math.isfinite(total) else None


@dataclass(frozen=True, slots=True)
class _Used:
    """Mean CPU use of the application's services [cores], bytes of memory that they have at the end, and the shares of
    the machine's CPUs by user; None, or without the application, where that is not known.
    """

    cores: float | None
    memory: float | None
    shares: Mapping[str, float]


def _quantities(latency: NDArray[np.float64], window: Window, objective: Objective, used: _Used) -> dict[str, Estimate]:
    """Estimate all quantities of REPORTED and of the objective; latencies in ms.

    Raises InputError where the objective needs one of which nothing is known.
    """
    names: Iterable[str] = dict.fromkeys((*REPORTED, *objective.quantities))
    estimates: dict[str, Estimate] = {}
    for name in names:
        if name == "mean":
            estimates[name] = mean(latency)
        elif name == "throughput":
            estimates[name] = rate(window.completed, window.seconds)
        elif name == "errors":
            estimates[name] = proportion(window.failed, window.requests)
        elif name == "cpu":
            if used.cores is None:
                raise InputError("the objective names cpu, and the engine does not tell what the services used")
            estimates[name] = Estimate(
                used.cores, -math.inf, math.inf, 1
            )  # read from counters: one reading, no samples
        elif name == "cost":
            if used.cores is None or used.memory is None:
                raise InputError("the objective names cost, and the testbed does not tell what the services used")
            cost = cost_per_hour(objective.prices, used.cores, used.memory)
            estimates[name] = Estimate(cost, -math.inf, math.inf, 1)
        elif name == "energy":
            joules = joules_per_request(objective.power, used.shares, window.completed, window.seconds)
            estimates[name] = Estimate(math.inf if joules is None else joules, -math.inf, math.inf, 1)
        else:
            estimates[name] = quantile(latency, probability_of(name))
    return estimates


def _lag_p99_ms(load: LoadResult, window: Window) -> float | None:
    """Return the generator's lag [ms]; None where it does not tell when requests were due, infinite without any."""
    if load.timing != "due":
        return None
    return float(np.quantile(window.lag_ms, 0.99)) if len(window.lag_ms) else math.inf


def _warmup(load: LoadResult) -> tuple[float | None, tuple[str, ...]]:
    """Return the warm-up that MSER asks for [s], or None and a warning that the run had not settled by its middle.

    0 where the times of requests are not known.
    """
    if load.timing == "distribution":
        return 0.0, ()
    try:
        return warmup_s([load]), ()
    except MeasurementInvalid as error:
        return None, error.reasons
