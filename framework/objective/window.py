"""The measured window as arrays: the latencies of its requests and root spans, and the machine's CPU use in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from framework.model import LoadResult, Usage
from framework.model.spans import SpanTable

GENERATOR = "loadgen"
"""Service name of the load generator's root client spans."""


@dataclass(frozen=True, slots=True)
class Window:
    """The requests that were due in the window, as the generator saw them; arrays in the order of the due times.

    ``latency_ms``: shape (requests,), infinite for failed ones.  ``sent``: number of them that were sent.  ``lag_ms``:
    shape (sent,), empty where the generator does not tell when requests were due.  ``completed``: good
    replies that arrived inside the window, whenever they were due.  ``in_flight``: requests open at its two edges.
    """

    requests: int
    failed: int
    latency_ms: NDArray[np.float64]
    sent: int
    lag_ms: NDArray[np.float64]
    completed: int
    in_flight: int
    seconds: float
    reasons: Mapping[str, int] = field(default_factory=dict)  # of the failed requests -> their number
    failing: Mapping[str, int] = field(default_factory=dict)  # name of failed requests -> their number, if some did not


def window_of(load: LoadResult) -> Window:
    """Cut the window out of a run."""
    start, end = load.edges_ns
    order = np.argsort(load.due_ns, kind="stable")
    due, sent, done, ok = load.due_ns[order], load.sent_ns[order], load.end_ns[order], load.ok[order]
    inside = (due >= start) & (due < end)
    latency = np.where(ok, (done - due) / 1e6, math.inf)[inside]
    was_sent = inside & (sent > 0)
    # A request without a reply stays open to the end.
    open_until = np.where(done > 0, done, np.iinfo(np.int64).max)
    in_flight = sum(int(((due < edge) & (open_until >= edge)).sum()) for edge in (start, end))
    return Window(
        requests=int(inside.sum()),
        failed=int((inside & ~ok).sum()),
        latency_ms=latency,
        sent=int(was_sent.sum()),
        lag_ms=(sent - due)[was_sent] / 1e6 if load.timing == "due" else np.empty(0),
        completed=int((ok & (done >= start) & (done < end)).sum()),
        in_flight=in_flight,
        seconds=load.window_s,
        reasons=dict(load.errors),
        failing=_failing(load, (load.due_ns >= start) & (load.due_ns < end)),
    )


def _failing(load: LoadResult, inside: NDArray[np.bool_]) -> dict[str, int]:
    kinds = np.bincount(load.request_class[inside], minlength=len(load.classes))
    failed = np.bincount(load.request_class[inside & ~load.ok], minlength=len(load.classes))
    some = np.flatnonzero(failed)
    if len(some) == np.count_nonzero(kinds):
        return {}
    return {load.classes[index]: int(failed[index]) for index in some.tolist()}


def root_latency_ms(spans: SpanTable) -> NDArray[np.float64]:
    """Return the latencies [ms] of the generator's root spans, oldest first, infinite on errors; shape (roots,)."""
    services = [index for index, name in enumerate(spans.strings) if name == GENERATOR]
    rows = np.flatnonzero((spans.parent == -1) & np.isin(spans.service, services))
    rows = rows[np.argsort(spans.start_ns[rows], kind="stable")]
    latency = (spans.end_ns[rows] - spans.start_ns[rows]) / 1e6
    return np.where(spans.error[rows], math.inf, latency)


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine's CPU use during the window; shares are of all its cores.  None: not reported by the engine."""

    stolen: float | None
    pressure: float | None
    shares: dict[str, float]
    service_cpu_s: dict[str, float]


def joined_share(spans: SpanTable) -> float:
    """Return the share of the traces in which another service than the generator has a span; 0 without traces."""
    if not len(spans.traces):
        return 0.0
    own = spans.strings.index(GENERATOR) if GENERATOR in spans.strings else -1
    return len(np.unique(spans.trace[spans.service != own])) / len(spans.traces)


def machine_of(load: LoadResult, tracing_service: str) -> Machine:
    """Compute the CPU use in the window of application, generator, jaeger (the tracing service) and tailor.

    ``others``: of all other processes, where the host's counters are known; a generator whose CPU time is not known is
    one of them.
    """
    before, after = load.usage_before, load.usage_after
    if before is None or after is None or after.at_ns <= before.at_ns:
        return Machine(None, None, {}, {})
    seconds = (after.at_ns - before.at_ns) / 1e9
    capacity = seconds * after.cores
    used = {name: after.cpu_s[name] - before.cpu_s[name] for name in after.cpu_s if name in before.cpu_s}
    generator = used.pop(GENERATOR, load.cpu_s)
    shares = {
        "application": sum(cpu for name, cpu in used.items() if name != tracing_service) / capacity,
        **({} if generator is None else {"generator": generator / capacity}),
        "jaeger": used.get(tracing_service, 0.0) / capacity,
        "tailor": (after.tailor_cpu_s - before.tailor_cpu_s) / capacity,
    }
    busy = (after.host_cpu_s - before.host_cpu_s) / capacity
    if busy > 0:
        shares["others"] = max(0.0, busy - sum(shares.values()))
    return Machine((after.stolen_s - before.stolen_s) / capacity, _pressure(before, after, seconds), shares, used)


def cores_used(load: LoadResult, machine: Machine) -> float | None:
    """Return the mean CPU use [cores] of the application's services in the window; None where it is not known."""
    if load.usage_after is None or not machine.shares:
        return None
    return machine.shares["application"] * load.usage_after.cores


def memory_of(load: LoadResult, tracing_service: str) -> float | None:
    """Return the memory [bytes] of the application's services at the window's end; None where one's is not known."""
    after = load.usage_after
    if after is None:
        return None
    own = [name for name in after.cpu_s if name not in (GENERATOR, tracing_service)]
    known = [after.memory_bytes[name] for name in own if name in after.memory_bytes]
    return math.fsum(known) if own and len(known) == len(own) else None


def _pressure(before: Usage, after: Usage, seconds: float) -> float | None:
    """Return the fraction of time in which a task waited for a CPU; None where it was not measured."""
    if before.pressure_cpu_s is None or after.pressure_cpu_s is None:
        return None
    return (after.pressure_cpu_s - before.pressure_cpu_s) / seconds
