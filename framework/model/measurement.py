"""The data of one repetition: its load, its raw results, and the measurement computed from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from framework.errors import FieldError
from framework.model.application import Workload
from framework.model.deployment import Usage
from framework.model.load_generators import Loop
from framework.model.spans import RootSpan

MOST_TRACES = 2_000
"""Traces of a window that are read one by one by their ids, from a store that takes no root spans."""

ID_BYTES = 24
"""Bytes of a root span's ids: 16 of its trace, 8 of its own."""


@dataclass(frozen=True, slots=True)
class RatePoint:
    """The rate at a moment, counted from the start of the window."""

    at_s: float
    rate_rps: float


@dataclass(frozen=True, slots=True)
class RateProfile:
    """A rate that changes with time: linear between its points, constant before the first and after the last.

    ``points``: at least one, in the order of their times; two at the same time are a jump.
    """

    points: tuple[RatePoint, ...]
    length_s: float

    def compressed(self, factor: float) -> RateProfile:
        """Return the profile in a time ``factor`` times shorter; the rates stay.  Raises FieldError."""
        if not (math.isfinite(factor) and factor > 0):
            raise FieldError("factor", factor, "a number above 0")
        points = tuple(RatePoint(point.at_s / factor, point.rate_rps) for point in self.points)
        return RateProfile(points, self.length_s / factor)

    def peak_rps(self) -> float:
        return max(point.rate_rps for point in self.points)


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One run of the generator: warm-up and window without a gap; the same seed gives the same arrivals.

    ``profile``: the rate over time, which Tailor's own generator follows (``RateProfile.points``); the warm-up has its
    first rate.  ``rate_rps`` is then 0, so that nothing can take a mean for it.
    """

    workload: Workload
    rate_rps: float
    warmup_s: float
    window_s: float
    seed: int
    trace: bool = True
    cpus: str = ""  # the generator's CPU list; empty: its own choice
    profile: tuple[RatePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The generator's record of a run: arrays with one element per request, warm-up included, shape (requests,).

    ``status``: of the reply, 0 for no reply.  ``timing``: what is known of the requests' times.  due: when each was due
    and when it was sent.  sent: only the latter, which then stands in ``due_ns`` too.  distribution: only latencies;
    every request then stands at the start of the window.
    ``ids``: trace and span of each root span as bytes, shape (requests, 24),
    where the generator kept them because the user's trace store does not take them; else None.
    """

    started_ns: int  # when the first request could have been due
    warmup_s: float
    window_s: float
    classes: tuple[str, ...]
    due_ns: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    request_class: NDArray[np.uint8]
    status: NDArray[np.int16]
    ok: NDArray[np.bool_]
    errors: Mapping[str, int]  # reason -> count, in the window
    spans_created: int  # client spans of the window
    spans_exported: int
    cpu_s: float | None  # CPU time of the generator in the window; None: not known
    usage_before: Usage | None = None  # at the start of the window
    usage_after: Usage | None = None  # at its end
    tick_us: float | None = None  # mean CPU time of the generator's ticks in the window (loadgen/yardstick.go)
    ids: NDArray[np.uint8] | None = field(default=None, compare=False)
    loop: Loop = "open"
    timing: Literal["due", "sent", "distribution"] = "due"

    @property
    def sample(self) -> NDArray[np.intp]:
        """The rows of the window's requests whose traces are read by id: all, or 2,000 evenly among them."""
        start, end = self.edges_ns
        rows = np.flatnonzero((self.due_ns >= start) & (self.due_ns < end))
        rows = rows[np.argsort(self.due_ns[rows], kind="stable")]
        if len(rows) <= MOST_TRACES:
            return rows
        return rows[np.linspace(0, len(rows) - 1, MOST_TRACES).round().astype(np.intp)]

    @property
    def roots(self) -> tuple[RootSpan, ...]:
        """The root spans of ``sample``; none where the generator did not keep them."""
        if self.ids is None:
            return ()
        return tuple(
            RootSpan(
                self.ids[row, :16].tobytes().hex(),
                int.from_bytes(self.ids[row, 16:].tobytes()),
                self.classes[self.request_class[row]],
                not bool(self.ok[row]),
                int(self.due_ns[row]),
                max(int(self.due_ns[row]), int(self.end_ns[row])),
            )
            for row in self.sample.tolist()
        )

    @property
    def closed_loop(self) -> bool:
        """Whether requests wait for replies to others, so that latencies leave waiting out (coordinated omission)."""
        return self.loop != "open"

    @property
    def edges_ns(self) -> tuple[int, int]:
        """The measured window [start, end), on the clock of ``started_ns``."""
        start = self.started_ns + round(self.warmup_s * 1e9)
        return start, start + round(self.window_s * 1e9)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval and the number of samples behind it; an open side is +-infinity."""

    value: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """One service in the traces of a window; times in ms, with intervals over its requests.

    ``share``: of the critical path of all requests; the shares of all services add up to one.  ``path_ms``: mean time
    on the path over the requests where it appears.  ``mean_ms``, ``p95_ms``, ``cv``: of its self time in these.
    ``depth``: mean number of ancestors of its spans; sorting by it leads from the front end to the stores.
    """

    service: str
    spans: int
    traces: int
    share: Estimate
    path_ms: Estimate
    mean_ms: Estimate
    p95_ms: Estimate
    cv: Estimate
    depth: float = 0.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """One window of a repetition: its numbers, and the reasons why it is invalid or infeasible, if it is.

    A repetition has one window, or one at each rate of a study of several rates.
    """

    repetition: int
    attempt: int
    invalid: tuple[str, ...]  # reasons; empty means valid
    infeasible: tuple[str, ...]  # limits of the application that were passed (errors, achieved rate)
    value: float | None  # the objective
    quantities: Mapping[str, Estimate]  # mean, p50, p95, p99 (ms), throughput (requests/s)
    requests: int
    failed_requests: int
    achieved_rps: float
    wanted_rps: float
    lag_p99_ms: float | None  # None: the generator does not tell when requests were due
    generator_p95_ms: float
    spans_created: int | None
    spans_read: int
    stolen_cpu: float | None
    pressure_cpu: float | None
    cpu: Mapping[str, float]  # share of the machine: application, generator, jaeger, tailor
    service_cpu_s: Mapping[str, float]
    services: tuple[ServiceTime, ...]
    statistics: Mapping[str, Mapping[str, float]]
    phases: Mapping[str, float]
    latencies_ms: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32), compare=False)
    warnings: tuple[str, ...] = ()
    spans: str = ""  # artefact of the window's traces, where they are kept
    warmup_needed_s: float | None = None  # where MSER would truncate warm-up and window as one series
    tick_us: float | None = None  # mean CPU time of a tick, a constant piece of work: the machine's slowness
    rate_rps: float | None = None  # of this window, where the study measures several rates in a repetition
    joined: float | None = None  # share of the traces in which a service has a span; None: the load was not traced


def cpu_us_per_request(windows: Sequence[Measurement]) -> dict[str, float]:
    """Return service -> CPU time per request [us] over all windows, for services that used any."""
    requests = sum(window.requests for window in windows)
    names = sorted({name for window in windows for name in window.service_cpu_s})
    spent_s = {name: math.fsum(window.service_cpu_s.get(name, 0.0) for window in windows) for name in names}
    return {name: 1e6 * seconds / requests for name, seconds in spent_s.items() if seconds > 0} if requests else {}
