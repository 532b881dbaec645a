"""A Prometheus server as a server of metrics: one value of a query, and when it was scraped."""

from __future__ import annotations

import math

from framework.errors import Transient
from framework.ports.metric_server import MetricValue
from framework.telemetry.latency.instant import InstantValue, instant
from framework.telemetry.latency.pages import Pages


class PrometheusServer:
    """Implements ``framework.ports.metric_server.MetricServer``."""

    def __init__(self, address: str, pages: Pages | None = None) -> None:
        """Raises FieldError for an address that is none."""
        self._pages = pages or Pages(address, "a Prometheus server", field="power")

    @property
    def shown(self) -> str:
        return self._pages.shown

    def newest(self, query: str) -> MetricValue:
        """Return the value of a query with one series, and when it was scraped.  Raises Transient.

        An instant query says when it was evaluated, not when its value was scraped; that PromQL's ``timestamp`` says,
        of a selector's series.  Of other expressions it is the time of the evaluation.
        """
        value, taken = self._only(query), self._only(f"timestamp({query})")
        if not (math.isfinite(value.value) and math.isfinite(taken.value)):
            raise Transient(f"{self.shown}: the value of {query} is no number")
        return MetricValue(value.value, taken.value)

    def close(self) -> None:
        """Close the connections."""
        self._pages.close()

    def _only(self, query: str) -> InstantValue:
        values = instant(self._pages, query)
        if len(values) != 1:
            raise Transient(f"{self.shown}: {query} has {len(values)} results; allowed: one, such as of sum(...)")
        return values[0]
