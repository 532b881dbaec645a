"""Tail latencies of a histogram on an application's own page of metrics, in the text format of Prometheus.

Quantile and rate are those of the growth of the buckets over the last window, so that no Prometheus server is needed,
and an answer is as old as a window of a few seconds and not as a scrape interval.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

from prometheus_client.parser import text_string_to_metric_families

from framework.errors import FieldError, Transient
from framework.telemetry.latency.histogram import Buckets, Growth, histogram_quantile
from framework.telemetry.latency.pages import Pages, split_address
from framework.telemetry.latency.registry import SOURCES
from framework.telemetry.latency.selector import Selector, read_selector, unit_ms
from framework.telemetry.latency.source import IDLE, WINDOWS, Place, Source

WINDOW_S = 5.0
LEAST_PERIOD_S, STEPS = 0.1, 10
ACCEPTED = "text/plain; version=0.0.4"
EXAMPLE = "http://127.0.0.1:8080/metrics#http_request_duration_seconds"

Series = Mapping[Hashable, Buckets]
"""Labels of a series but for ``le`` -> its buckets."""


class MetricsSource:
    """Implements ``framework.telemetry.latency.source.Source``.

    ``window_s``: over which the growth is taken; it is read ten times in each.  ``unit_ms``: of the histogram's bounds.
    """

    def __init__(self, pages: Pages, selector: Selector, quantile: float, unit_ms: float, window_s: float) -> None:
        self.window_s, self.period_s = window_s, max(LEAST_PERIOD_S, window_s / STEPS)
        self._pages, self._selector, self._quantile, self._unit_ms = pages, selector, quantile, unit_ms
        self._growth = Growth(window_s, WINDOWS * window_s)

    def begin(self, now_s: float) -> Mapping[str, float]:
        """Check that the histogram is there; readings need a second look."""
        try:
            series = self._read()
        except Transient as error:
            raise FieldError("latency", str(error), f"a page of metrics that answers, such as {EXAMPLE}") from error
        if not series:
            raise FieldError(
                "latency", f"no series of {self._selector} at {self._pages.shown}",
                "a classic histogram of that page, after its first request",
            )  # fmt: skip
        if not any(math.isfinite(bound) for buckets in series.values() for bound in buckets):
            raise FieldError("latency", f"{self._selector} without a finite bucket", "a histogram with finite buckets")
        self._growth.add(now_s, series)
        return {}

    def look(self, now_s: float) -> Mapping[str, float]:
        """Return the readings of the growth since a window ago, or since the first look where that is less."""
        self._growth.add(now_s, self._read())
        window = self._growth.window()
        if window is None or window[0] <= 0:
            return {}
        length_s, buckets = window
        requests = max(buckets.values(), default=0.0)
        if requests <= 0:
            return IDLE
        latency = histogram_quantile(self._quantile, buckets)
        return {"rate_rps": requests / length_s} | ({} if latency is None else {"latency_ms": latency * self._unit_ms})

    def close(self) -> None:
        """Close the connections."""
        self._pages.close()

    def _read(self) -> Series:
        """Return the chosen series.  Raises Transient where there is no page, or the page has no such histogram.

        A page that declares the histogram and has no series of it is that of a process with no request so far.
        """
        page = self._pages.get(accept=ACCEPTED).decode(errors="replace")
        name = self._selector.name
        try:
            declared, series = read_series(page, self._selector)
        except (ValueError, IndexError, KeyError) as error:
            raise Transient(f"{self._pages.shown}: {name} is not in the text format of Prometheus: {error}") from error
        if not declared and not series:
            raise Transient(f"{self._pages.shown}: the page has no histogram {name}")
        return series


def read_series(page: str, selector: Selector) -> tuple[bool, Series]:
    """Return whether a page declares the histogram, and the series of it that the selector chooses.

    Only lines of this histogram are parsed: a page may have ten thousand others.  Raises ValueError, IndexError,
    KeyError where one of them cannot be read.
    """
    bucket, declaration = f"{selector.name}_bucket", f"# TYPE {selector.name} "
    lines = [line for line in page.splitlines() if line.startswith(bucket)]
    series: dict[Hashable, dict[float, float]] = {}
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            if sample.name != bucket or not selector.matches(sample.labels):
                continue
            if not math.isfinite(sample.value) or sample.value < 0:
                raise ValueError(f"a bucket of {selector.name} has the count {sample.value}")
            labels = frozenset(item for item in sample.labels.items() if item[0] != "le")
            series.setdefault(labels, {})[float(sample.labels["le"])] = float(sample.value)
    return any(line.startswith(declaration) for line in page.splitlines()), series


@SOURCES.register("metrics")
def metrics(place: Place) -> Source:
    """Return the source of ``URL#HISTOGRAM{label="value"}``; options: window [s], unit.  Raises FieldError."""
    place.allow(("window", "unit"))
    address, histogram = split_address(place.text, "a histogram's name")
    selector = read_selector(histogram)
    unit, window_s = unit_ms(place, selector), place.window_s(WINDOW_S)
    return MetricsSource(Pages(address, "a page of metrics"), selector, place.quantile, unit, window_s)
