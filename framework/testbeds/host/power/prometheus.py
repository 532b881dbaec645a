"""Live readings of watts that a Prometheus server has scraped, of a smart plug, a rack or a power supply."""

from __future__ import annotations

from collections.abc import Callable

from framework.energy.zones import MACHINE
from framework.errors import FieldError, KnobRefused, Transient
from framework.model.energy import CpuTimes, Joules, Label
from framework.ports.metric_server import MetricServer
from framework.testbeds.host.power.counted import CountedSource, WattsOverTime
from framework.testbeds.host.power.registry import SOURCES, Surroundings

STALE_S = 30.0
"""Age after which a value says nothing about now: two scrapes at the usual 15 s."""
EXAMPLE = 'prometheus:http://127.0.0.1:9090#plug_power_watts{plug="server"}'


class PrometheusSource(CountedSource):
    """The value of a query, in watts; implements ``framework.ports.energy.PowerSource``.

    Its age is that of the scrape where the query is a series' selector; the server tells none of other expressions, of
    which it leaves out what it has not scraped for five minutes.
    """

    name = "prometheus"
    label: Label = "measured"
    lag_s = STALE_S

    def __init__(self, server: MetricServer | None, query: str, now: Callable[[], float]) -> None:
        super().__init__()
        self._server, self._query, self._now = server, query, now
        self._over_time = WattsOverTime()

    def missing(self) -> str:
        try:
            self._watts()
        except KnobRefused as error:
            return f"{error.knob}: {error.reason}"
        except Transient as error:
            return str(error).strip().splitlines()[0]
        return ""

    def about(self) -> str:
        shown = self._server.shown if self._server is not None else "no server"
        return f"{self._query} at {shown}, at most {STALE_S:g} s old"

    def look(self, at_s: float, seconds: float | None, cpu: CpuTimes) -> dict[str, Joules]:
        return self._over_time.joules(seconds, {MACHINE: self._watts()})

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def _watts(self) -> float:
        """Return the watts now.  Raises KnobRefused where they are old, Transient where there is no answer."""
        if self._server is None:
            raise KnobRefused("Prometheus", "this program has no way to ask a Prometheus server")
        newest = self._server.newest(self._query)
        age_s = self._now() - newest.taken_s
        if not abs(age_s) <= STALE_S:
            raise KnobRefused(
                self._server.shown, f"the value of {self._query} is {age_s:.0f} s old; at most {STALE_S:g} s"
            )
        return newest.value


@SOURCES.register("prometheus")
def prometheus(argument: str, here: Surroundings) -> PrometheusSource:
    """Return the source of ``URL#QUERY``.  Raises FieldError."""
    address, _, query = argument.partition("#")
    if not address.strip() or not query.strip():
        raise FieldError("power", "prometheus", f"an address, #, and a query of watts with one result: {EXAMPLE}")
    server = None if here.metrics is None else here.metrics(address.strip())
    return PrometheusSource(server, query.strip(), here.now)
