"""Tail latencies of a histogram that a Prometheus server has scraped, by its HTTP API.

Buckets and not ``histogram_quantile`` are asked for: it answers with the last finite bound for every latency above it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from framework.errors import FieldError, Transient
from framework.telemetry.latency.histogram import Buckets, histogram_quantile
from framework.telemetry.latency.instant import instant
from framework.telemetry.latency.pages import Pages, split_address
from framework.telemetry.latency.registry import SOURCES
from framework.telemetry.latency.selector import Selector, read_selector, unit_ms
from framework.telemetry.latency.source import IDLE, Place, Source

WINDOW_S = 30.0  # two scrapes at the usual 15 s
LEAST_PERIOD_S, STEPS = 0.5, 20
EXAMPLE = 'http://127.0.0.1:9090#http_request_duration_seconds{job="web"}'


class PrometheusSource:
    """Implements ``framework.telemetry.latency.source.Source``.

    ``window_s``: of Prometheus's ``rate``, which needs two scrapes in it.  ``unit_ms``: of the histogram's bounds.
    """

    def __init__(self, pages: Pages, selector: Selector, quantile: float, unit_ms: float, window_s: float) -> None:
        self.window_s, self.period_s = window_s, max(LEAST_PERIOD_S, window_s / STEPS)
        self._pages, self._selector, self._quantile, self._unit_ms = pages, selector, quantile, unit_ms

    def begin(self, now_s: float) -> Mapping[str, float]:
        """Check that the histogram is there, and read it; empty where it has been scraped less than twice."""
        buckets = f"{self._selector.name}_bucket{self._selector.labels}"
        try:
            known = self._ask(f"sum by (le) ({buckets})")
        except Transient as error:
            raise FieldError("latency", str(error), f"a Prometheus server that answers, such as {EXAMPLE}") from error
        if not known:
            raise FieldError(
                "latency", f"no series {buckets} at {self._pages.shown}",
                "a classic histogram that Prometheus has scraped, after its first request",
            )  # fmt: skip
        if not any(math.isfinite(bound) for bound in known):
            raise FieldError("latency", f"{buckets} without a finite bucket", "a histogram with finite buckets")
        try:
            return self.look(now_s)
        except Transient:
            return {}

    def look(self, now_s: float) -> Mapping[str, float]:
        """Return the readings of the last window that Prometheus has scraped."""
        selector = self._selector
        rates = self._ask(
            f"sum by (le) (rate({selector.name}_bucket{selector.labels}[{round(self.window_s * 1000)}ms]))"
        )
        rate_rps = rates.get(math.inf)
        if rate_rps is None:
            raise Transient(
                f"{self._pages.shown}: fewer than two scrapes of {selector} in {self.window_s:g} s; the window has to "
                "be twice as long as the scrape interval"
            )
        if rate_rps <= 0:
            return IDLE
        latency = histogram_quantile(self._quantile, rates)
        return {"rate_rps": rate_rps} | ({} if latency is None else {"latency_ms": latency * self._unit_ms})

    def close(self) -> None:
        """Close the connections."""
        self._pages.close()

    def _ask(self, query: str) -> Buckets:
        """Return bound -> value of a query by ``le``; empty where it has no series."""
        try:
            buckets = {float(series.labels["le"]): series.value for series in instant(self._pages, query)}
        except (KeyError, ValueError) as error:
            raise Transient(f"{self._pages.shown}: this is not an answer of Prometheus: {error}") from error
        if not all(math.isfinite(value) for value in buckets.values()):
            raise Transient(f"{self._pages.shown}: {self._selector} has counts that are no numbers")
        return buckets


@SOURCES.register("prometheus")
def prometheus(place: Place) -> Source:
    """Return the source of ``URL#HISTOGRAM{label="value"}``; options: window [s], unit.  Raises FieldError."""
    place.allow(("window", "unit"))
    address, histogram = split_address(place.text, "a histogram's name")
    selector = read_selector(histogram)
    unit, window_s = unit_ms(place, selector), place.window_s(WINDOW_S)
    return PrometheusSource(Pages(address, "a Prometheus server"), selector, place.quantile, unit, window_s)
