"""Quantiles of histograms, their growth, and the two sources that read them, against small HTTP servers."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from framework.errors import FieldError, Transient
from framework.telemetry.latency.histogram import Growth, exact_quantile, histogram_quantile
from framework.telemetry.latency.metrics import MetricsSource, metrics, read_series
from framework.telemetry.latency.prometheus import PrometheusSource, prometheus
from framework.telemetry.latency.selector import read_selector
from framework.telemetry.latency.source import IDLE, Place
from tests.unit.test_traces_jaeger import served

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)
NAME = "http_request_duration_seconds"
quantiles = st.floats(0.01, 0.999)
times = st.floats(0.0, 3.0)


def buckets_of(values: Sequence[float], bounds: Sequence[float] = BOUNDS) -> dict[float, float]:
    """Buckets of these values."""
    return {bound: float(sum(value <= bound for value in values)) for bound in (*bounds, math.inf)}


# ------------------------------------------------------------------ quantiles


@given(
    quantile=quantiles,
    values=st.lists(times, min_size=1, max_size=200),
    bounds=st.sets(st.floats(0.001, 2.0), min_size=1),
)
@example(quantile=0.5, values=[0.005], bounds={0.005})
def test_the_quantile_lies_in_the_bucket_of_the_exact_one(
    quantile: float, values: list[float], bounds: set[float]
) -> None:
    edges = sorted(bounds)
    exact = exact_quantile(quantile, values)
    estimate = histogram_quantile(quantile, buckets_of(values, edges))
    assert estimate is not None
    index = bisect_left(edges, exact)
    if index == len(edges):
        assert estimate >= 2 * edges[-1]  # above the last bound, and so is what is told
    else:
        assert (edges[index - 1] if index else 0.0) <= estimate <= edges[index]


@given(values=st.lists(times, min_size=1, max_size=100), first=quantiles, second=quantiles)
def test_a_higher_quantile_is_no_less(values: list[float], first: float, second: float) -> None:
    low, high = (histogram_quantile(quantile, buckets_of(values)) for quantile in sorted((first, second)))
    assert low is not None
    assert high is not None
    assert low <= high


def test_the_quantile_is_linear_inside_a_bucket() -> None:
    buckets = {0.1: 50.0, 0.2: 90.0, 0.4: 100.0, math.inf: 100.0}
    assert histogram_quantile(0.5, buckets) == pytest.approx(0.1)
    assert histogram_quantile(0.7, buckets) == pytest.approx(0.15)
    assert histogram_quantile(0.95, buckets) == pytest.approx(0.3)
    assert histogram_quantile(0.25, buckets) == pytest.approx(0.05)


def test_a_latency_above_the_last_bound_counts_as_above_it() -> None:
    assert histogram_quantile(0.95, {0.1: 0.0, 1.0: 90.0, math.inf: 100.0}) == pytest.approx(10.0)
    assert histogram_quantile(0.95, {0.9: 0.0, 1.0: 90.0, math.inf: 100.0}) == pytest.approx(2.0)
    assert histogram_quantile(0.95, {1.0: 90.0, math.inf: 100.0}) == pytest.approx(2.0)


@pytest.mark.parametrize("buckets", [{}, {math.inf: 3.0}, {1.0: 0.0, math.inf: 0.0}])
def test_there_is_no_quantile_without_requests_or_bounds(buckets: Mapping[float, float]) -> None:
    assert histogram_quantile(0.95, buckets) is None


def test_buckets_that_fall_a_little_are_read_as_level() -> None:
    assert histogram_quantile(0.5, {1.0: 10.0, 2.0: 9.0, 4.0: 10.0, math.inf: 10.0}) == pytest.approx(0.5)


# ------------------------------------------------------------------ growth


@given(
    steps=st.lists(
        st.tuples(st.booleans(), st.lists(times, max_size=5), st.sampled_from(["a", "b"])), min_size=1, max_size=60
    )
)
def test_growth_counts_each_request_once_through_restarts(steps: list[tuple[bool, list[float], str]]) -> None:
    """Each step may restart a process; what came after the restart and before the look is what counts."""
    growth = Growth(window_s=1000.0, gap_s=1000.0)
    totals: dict[str, list[float]] = {"a": [], "b": []}
    growth.add(0.0, {key: buckets_of(values) for key, values in totals.items()})
    seen: list[float] = []
    for number, (restarted, values, key) in enumerate(steps, start=1):
        if restarted and len(values) < len(totals[key]):  # one that has caught up again looks like none
            totals[key] = []
        totals[key] = totals[key] + values
        seen += values
        growth.add(float(number), {key: buckets_of(values) for key, values in totals.items()})
    window = growth.window()
    assert window is not None
    assert window[0] == pytest.approx(len(steps))
    assert window[1] == buckets_of(seen)


def test_growth_is_that_of_the_window() -> None:
    growth = Growth(window_s=5.0, gap_s=15.0)
    for second in range(21):
        growth.add(float(second), {"it": {1.0: 2.0 * second, math.inf: 3.0 * second}})
    assert growth.window() == (5.0, {1.0: 10.0, math.inf: 15.0})


def test_after_a_gap_counting_begins_anew() -> None:
    growth = Growth(window_s=1.0, gap_s=3.0)
    growth.add(0.0, {"it": {math.inf: 1.0}})
    growth.add(1.0, {"it": {math.inf: 2.0}})
    growth.add(5.0, {"it": {math.inf: 900.0}})
    assert growth.window() is None
    growth.add(6.0, {"it": {math.inf: 904.0}})
    assert growth.window() == (1.0, {math.inf: 4.0})


def test_a_series_that_comes_later_counts_from_zero() -> None:
    growth = Growth(window_s=5.0, gap_s=15.0)
    growth.add(0.0, {"old": {math.inf: 7.0}})
    growth.add(1.0, {"old": {math.inf: 8.0}, "new": {math.inf: 3.0}})
    assert growth.window() == (1.0, {math.inf: 4.0})


# ------------------------------------------------------------------ an application's own metrics


class Application:
    """A page of metrics made by Prometheus's own library; it can restart, and be away."""

    def __init__(self, labels: Sequence[str] = ("route",)) -> None:
        self.labels, self.away = labels, False
        self.restart()

    def restart(self) -> None:
        self.registry = CollectorRegistry()
        self.times = Histogram(NAME, "Time", self.labels, registry=self.registry, buckets=BOUNDS)
        Histogram(f"{NAME}_of_others", "Not this one", registry=self.registry).observe(9.0)

    def observe(self, values: Sequence[float], *labels: str) -> None:
        for value in values:
            self.times.labels(*labels).observe(value)

    def __call__(self, method: str, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        return (503, b"restarting") if self.away else (200, generate_latest(self.registry))


@contextmanager
def reading(application: Application, text: str = NAME, **options: str) -> Iterator[MetricsSource]:
    """The source of this application's page."""
    with served(application) as port:
        source = metrics(Place(f"http://127.0.0.1:{port}/metrics#{text}", 0.95, options))
        assert isinstance(source, MetricsSource)
        try:
            yield source
        finally:
            source.close()


def test_metrics_give_rate_and_quantile_of_the_growth() -> None:
    application = Application()
    application.observe([0.3] * 1000, "/slow")  # before the guard began
    with reading(application) as source:
        assert source.begin(0.0) == {}
        application.observe([0.02] * 94, "/a")
        application.observe([0.3] * 6, "/b")
        readings = source.look(2.0)
        assert readings["rate_rps"] == pytest.approx(50.0)
        assert readings["latency_ms"] == pytest.approx(100 + 400 / 6)
        for second in (3.0, 4.0, 5.0, 6.0, 7.0):
            source.look(second)
        assert source.look(8.0) == IDLE  # the page answers, nobody asks


def test_metrics_choose_series_by_labels() -> None:
    application = Application()
    application.observe([0.3], "/a")
    application.observe([0.3], "/b")
    with reading(application, NAME + '{route=~"/a.*"}') as source:
        source.begin(0.0)
        application.observe([0.006] * 10, "/a")
        application.observe([0.9] * 10, "/b")
        assert source.look(1.0) == pytest.approx({"rate_rps": 10.0, "latency_ms": 9.75})


def test_metrics_of_a_restarted_application_begin_anew() -> None:
    application = Application()
    application.observe([0.3] * 100, "/a")
    with reading(application) as source:
        source.begin(0.0)
        application.away = True
        with pytest.raises(Transient, match="503 restarting"):
            source.look(1.0)
        application.restart()
        application.away = False
        assert source.look(2.0) == IDLE  # it declares the histogram, and had no request
        application.observe([0.02] * 8, "/a")
        assert source.look(4.0)["rate_rps"] == pytest.approx(2.0)
        application.restart()
        application.observe([0.02] * 2, "/a")
        assert source.look(5.0)["rate_rps"] == pytest.approx(2.0)


def test_metrics_beyond_the_last_bound_count_as_above_it() -> None:
    application = Application()
    application.observe([0.3], "/a")
    with reading(application) as source:
        source.begin(0.0)
        application.observe([50.0], "/a")
        assert source.look(1.0)["latency_ms"] == pytest.approx(2000.0)


def test_metrics_without_the_histogram_are_an_input_error_at_the_start_and_missing_later() -> None:
    application = Application()
    with reading(application) as source, pytest.raises(FieldError, match="after its first request"):
        source.begin(0.0)
    application.observe([0.3], "/a")
    with reading(application, "requests_seconds") as source, pytest.raises(FieldError, match="no histogram"):
        source.begin(0.0)
    with reading(application, NAME + '{route="/typo"}') as source, pytest.raises(FieldError, match="no series"):
        source.begin(0.0)
    with reading(application) as source:
        source.begin(0.0)
        application.registry = CollectorRegistry()
        with pytest.raises(Transient, match="no histogram"):
            source.look(1.0)


@pytest.mark.parametrize(
    "line", ['{le="x"} 1', '{le="1"} many', '{le="1"} NaN', '{le="1"} -1', '{route="/a"} 1', "{le="]
)
def test_metrics_that_cannot_be_read_are_transient(line: str) -> None:
    application = Application()
    application.observe([0.3], "/a")
    page = [generate_latest(application.registry)]
    with served(lambda *_: (200, page[0])) as port:
        source = metrics(Place(f"http://127.0.0.1:{port}#{NAME}", 0.95))
        source.begin(0.0)
        page[0] = f"{NAME}_bucket{line}\n".encode()
        with pytest.raises(Transient, match="not in the text format"):
            source.look(1.0)
        source.close()


def test_a_histogram_without_finite_buckets_is_an_input_error() -> None:
    with served(lambda *_: (200, f'{NAME}_bucket{{le="+Inf"}} 3\n'.encode())) as port:
        source = metrics(Place(f"http://127.0.0.1:{port}#{NAME}", 0.95))
        with pytest.raises(FieldError, match="finite"):
            source.begin(0.0)
        source.close()


def test_exemplars_and_times_of_a_page_are_passed_over() -> None:
    page = (
        f'# TYPE {NAME} histogram\n{NAME}_bucket{{le="0.1"}} 8 # {{trace_id="abc"}} 0.05 1700000000.0\n'
        f'{NAME}_bucket{{le="+Inf"}} 10 1700000000000\n{NAME}_count 10\n{NAME}_sum 1\n# EOF\n'
    )
    assert read_series(page, read_selector(NAME)) == (True, {frozenset(): {0.1: 8.0, math.inf: 10.0}})


# ------------------------------------------------------------------ a Prometheus server


class Prometheus:
    """The query API over buckets that a test sets: totals, and their rates (None: too few scrapes)."""

    def __init__(self) -> None:
        self.totals: Mapping[float, float] = {0.1: 10.0, math.inf: 10.0}
        self.rates: Mapping[float, float] | None = None
        self.asked: list[str] = []

    def __call__(self, method: str, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        assert path == "/prefix/api/v1/query"
        self.asked.append(query["query"])
        buckets = self.rates or {} if "rate(" in query["query"] else self.totals
        result = [
            {"metric": {"le": "+Inf" if math.isinf(bound) else str(bound)}, "value": [1700000000.5, str(count)]}
            for bound, count in buckets.items()
        ]
        return 200, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


@contextmanager
def asking(server: Prometheus, text: str = NAME, **options: str) -> Iterator[PrometheusSource]:
    """The source of this server."""
    with served(server) as port:
        source = prometheus(Place(f"http://127.0.0.1:{port}/prefix/#{text}", 0.95, options))
        assert isinstance(source, PrometheusSource)
        try:
            yield source
        finally:
            source.close()


def test_prometheus_gives_rate_and_quantile() -> None:
    server = Prometheus()
    server.rates = {0.1: 9.0, 0.2: 10.0, math.inf: 10.0}
    with asking(server, NAME + '{job="web"}', window="10") as source:
        assert source.begin(0.0) == pytest.approx({"rate_rps": 10.0, "latency_ms": 150.0})
        assert server.asked == [
            f'sum by (le) ({NAME}_bucket{{job="web"}})',
            f'sum by (le) (rate({NAME}_bucket{{job="web"}}[10000ms]))',
        ]
        server.rates = {0.1: 0.0, 0.2: 0.0, math.inf: 5.0}
        assert source.look(1.0) == pytest.approx({"rate_rps": 5.0, "latency_ms": 400.0})
        server.rates = {0.1: 0.0, math.inf: 0.0}
        assert source.look(2.0) == IDLE


def test_prometheus_in_milliseconds() -> None:
    server = Prometheus()
    server.rates = {5.0: 10.0, math.inf: 10.0}
    with asking(server, "latency", unit="ms") as source:
        assert source.begin(0.0)["latency_ms"] == pytest.approx(4.75)


def test_too_few_scrapes_are_missing_and_no_idle_service() -> None:
    server = Prometheus()
    with asking(server) as source:
        assert source.begin(0.0) == {}
        with pytest.raises(Transient, match="twice as long as the scrape interval"):
            source.look(1.0)


def test_a_rate_that_is_no_number_is_missing() -> None:
    server = Prometheus()
    server.rates = {0.1: math.nan, math.inf: math.nan}
    with asking(server) as source, pytest.raises(Transient, match="no numbers"):
        source.look(1.0)


@pytest.mark.parametrize(("totals", "message"), [({}, "no series"), ({math.inf: 3.0}, "without a finite bucket")])
def test_an_unknown_histogram_is_an_input_error(totals: Mapping[float, float], message: str) -> None:
    server = Prometheus()
    server.totals = totals
    with asking(server) as source, pytest.raises(FieldError, match=message):
        source.begin(0.0)
