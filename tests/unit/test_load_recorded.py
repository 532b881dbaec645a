"""Results of real load generators are read as numpy and the generators read them (tests/cases/load/record)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framework.load.h2load import H2load
from framework.load.invocation import Finished, Task, Tool
from framework.load.jmeter import JMeter
from framework.load.k6 import K6
from framework.load.locust import Locust
from framework.load.vegeta import Vegeta
from framework.load.wrk2 import Wrk2
from framework.model import ExternalLoad, LoadPlan, LoadResult, Workload
from framework.objective.window import Window, window_of

CASES = Path(__file__).parents[1] / "cases" / "load"
TOOLS: dict[str, Tool] = {
    tool.name: tool for tool in (H2load(), JMeter(), K6(), Locust(), Vegeta(), Wrk2()) if (CASES / tool.name).is_dir()
}
WITH_TIMES = sorted(set(TOOLS) - {"wrk2"})


def case(name: str) -> tuple[LoadResult, dict[str, Any]]:
    directory = CASES / name
    expected = json.loads((directory / "expected.json").read_text())
    plan = LoadPlan(
        Workload(expected["rate_rps"], "constant", "http://web", {}),
        expected["rate_rps"], expected["warmup_s"], expected["window_s"], seed=1,
    )  # fmt: skip
    output = directory / "output.txt"
    finished = Finished(output.read_bytes() if output.exists() else b"", directory, expected["ended_ns"])
    told = TOOLS[name].read(Task(plan, ExternalLoad(users=expected["users"]), "http://web", "/s", "/r"), finished)
    warmup_s = plan.warmup_s if told.warmup_s is None else told.warmup_s
    window_s = plan.window_s if told.window_s is None else told.window_s
    origin_ns = told.rows.origin_ns()
    if told.timing == "distribution":
        origin_ns -= round(warmup_s * 1e9)
    return told.rows.result(origin_ns, warmup_s, window_s), expected


def p95_ms(window: Window) -> float:
    return float(np.sort(window.latency_ms)[int(np.ceil(0.95 * window.requests)) - 1])


@pytest.mark.parametrize("name", WITH_TIMES)
def test_the_window_has_the_numbers_that_its_raw_rows_have(name: str) -> None:
    result, expected = case(name)
    window, wanted = window_of(result), expected["window"]
    assert window.requests == pytest.approx(wanted["requests"], abs=1), "the edge may fall between two roundings"
    assert window.failed == pytest.approx(wanted["failed"], abs=1)
    assert p95_ms(window) == pytest.approx(wanted["p95_ms"], rel=1e-3)
    assert np.sort(window.latency_ms)[window.requests // 2] == pytest.approx(wanted["p50_ms"], rel=0.05)
    assert sum(result.errors.values()) == window.failed


@pytest.mark.parametrize("name", WITH_TIMES)
def test_the_whole_run_has_the_numbers_of_the_generators_own_summary(name: str) -> None:
    result, expected = case(name)
    told = expected["tool"]
    assert (len(result.due_ns), int(result.ok.sum())) == (told["requests"], told["ok"])
    took_ms = (result.end_ns - result.sent_ns)[result.status > 0] / 1e6
    # The summaries print three digits or whole milliseconds.
    assert took_ms.mean() == pytest.approx(told["mean_ms"], rel=0.01, abs=0.6)
    if "p95_ms" in told:
        assert np.quantile(took_ms, 0.95) == pytest.approx(told["p95_ms"], rel=0.05)


def test_hits_of_vegeta_are_due_at_its_intervals() -> None:
    result, expected = case("vegeta")
    gaps = np.diff(np.sort(result.due_ns))
    assert set(gaps.tolist()) == {round(1e9 / expected["rate_rps"])}
    lag = result.sent_ns - result.due_ns
    assert lag.min() == 0, "no hit is early; the one that is least late tells when the first was due"


def test_the_spectrum_of_wrk2_is_the_distribution_that_it_prints() -> None:
    result, expected = case("wrk2")
    told = expected["tool"]
    window = window_of(result)
    assert window.requests == told["requests"]
    assert window.failed == 0
    assert p95_ms(window) == pytest.approx(told["p95_ms"], rel=1e-6)
    # Each request has the upper latency of its step, so that the mean is a little high.
    assert told["mean_ms"] <= window.latency_ms.mean() <= 1.1 * told["mean_ms"]
    assert result.window_s == pytest.approx(19.75)
    assert window.completed == window.requests
