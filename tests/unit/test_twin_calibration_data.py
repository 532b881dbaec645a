"""The evidence for a twin in recorded windows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from framework.twin.calibration.data import OTHERS, _below_saturation, _cpu_use
from optimizer.space import Parameter, SearchSpace


def window(rate: float, *, threads: int = 2, infeasible: tuple[str, ...] = (), tick_us: float | None = None) -> Any:
    """A service that uses 0.1 cores without requests and 500 us for each, on a machine as slow as its ticks say."""
    slowness = (tick_us or 50.0) / 50.0
    space = SearchSpace([Parameter("web.threads", "integer", 2, low=1, high=4, group="web")]).to_dict()
    measurement = SimpleNamespace(
        infeasible=infeasible,
        cpu={"generator": 0.0, "tailor": 0.0},
        service_cpu_s={"web": 10.0 * slowness * (0.1 + 500e-6 * rate)},
        requests=round(10.0 * rate),
        tick_us=tick_us,
    )
    study = SimpleNamespace(id="s", space=space, plan=SimpleNamespace(window_s=10.0), machine=SimpleNamespace(cores=2))
    trial = SimpleNamespace(configuration={"web.threads": threads})
    return SimpleNamespace(study=study, trial=trial, measurement=measurement, rate_rps=rate)


def test_rates_that_were_not_answered_in_full_are_left_out_and_those_above() -> None:
    past = ("91 requests/s were answered of 100 wanted",)
    windows = [window(40.0), window(100.0, infeasible=past), window(90.0), window(150.0), window(150.0, threads=4)]
    assert _below_saturation(windows) == [windows[0], windows[2], windows[4]]


def test_counters_are_of_the_machine_at_its_usual_speed() -> None:
    windows = [window(rate, tick_us=us) for rate, us in ((40.0, 80.0), (90.0, 40.0), (200.0, 45.0), (300.0, 60.0))]
    cpu_use = _cpu_use(windows[0], windows, 50.0)
    assert cpu_use["web"].idle_cores == pytest.approx(0.1)
    assert cpu_use["web"].per_request_us == pytest.approx(500.0)
    assert cpu_use[OTHERS].per_request_us == 0.0
    uncounted = _cpu_use(windows[0], [window(rate) for rate in (40.0, 90.0, 200.0)], 0.0)
    assert uncounted["web"].per_request_us == pytest.approx(500.0)
