"""A repetition becomes a measurement: its numbers, and each reason for which it does not count."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framework.errors import InputError
from framework.model import (
    Application,
    Limits,
    LoadResult,
    Loop,
    Measurement,
    Objective,
    Service,
    Term,
    Tracing,
    Workload,
)
from framework.objective import evaluate
from tests.runs import run, spans_of_run, stolen
from tests.span_tables import Row, span_table

APPLICATION = Application(
    name="pretend",
    directory=Path("apps/pretend"),
    compose={},
    services=(Service("nginx", "nginx", "frontend"), Service("post", "go-service", "logic")),
    hosts=("frontend", "logic"),
    workload=Workload(200.0, "poisson", "http://nginx:8080", {}),
    tracing=Tracing("jaeger"),
    objective=Objective(),
)
REQUESTS = 5000  # 25 s at 200 requests/s, of which 20 s are the window
IN_WINDOW = 4000


def latencies(requests: int = REQUESTS) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.exp(np.random.default_rng(1).normal(np.log(5), 0.5, requests))


def with_objective(*terms: Term) -> Application:
    return replace(APPLICATION, objective=Objective(terms))


def measure(load: LoadResult, application: Application = APPLICATION, **given: Any) -> Measurement:
    spans = given.pop("spans", None)
    arguments: Mapping[str, Any] = {"created": load.spans_created, "rate_rps": 200.0} | given
    return evaluate(load, spans_of_run(load) if spans is None else spans, application=application, **arguments)


def test_a_good_repetition_has_a_value_and_every_quantity() -> None:
    load = run(latencies())
    measurement = measure(
        load, spans=spans_of_run(load, answered=1.0), created=2 * IN_WINDOW,
        repetition=2, attempt=1, statistics={"post": {"hits": 3.0}}, phases={"load": 25.0},
    )  # fmt: skip
    window = np.sort(latencies()[1000:])
    assert (measurement.invalid, measurement.infeasible, measurement.warnings) == ((), (), ())
    assert measurement.value == pytest.approx(window[3799], rel=1e-5)
    assert measurement.value == measurement.quantities["p95"].value
    assert list(measurement.quantities) == ["mean", "p50", "p95", "p99", "throughput"]
    assert measurement.quantities["mean"].value == pytest.approx(window.mean(), rel=1e-5)
    assert measurement.quantities["throughput"].value == pytest.approx(200, rel=0.01)
    assert (measurement.requests, measurement.failed_requests, measurement.spans_read) == (IN_WINDOW, 0, 2 * IN_WINDOW)
    assert measurement.wanted_rps == 200
    assert measurement.generator_p95_ms == pytest.approx(measurement.value)
    assert measurement.lag_p99_ms == pytest.approx(0.01)
    assert (measurement.repetition, measurement.attempt, measurement.statistics["post"]["hits"]) == (2, 1, 3.0)
    assert len(measurement.latencies_ms) == IN_WINDOW
    assert measurement.warmup_needed_s is not None


@pytest.mark.parametrize(("host_s", "others"), [(22.1, 12 / 40), (5.0, 0.0)])
def test_the_share_of_other_processes(host_s: float, others: float) -> None:
    """The host's busy time that no part of the study used; never negative, though counters differ in time."""
    load = run(latencies())
    assert load.usage_after is not None
    measurement = measure(replace(load, usage_after=replace(load.usage_after, host_cpu_s=host_s)))
    assert measurement.cpu["others"] == pytest.approx(others)


def test_hosts_that_do_not_count_say_nothing_of_others() -> None:
    load = run(latencies())
    assert load.usage_after is not None
    assert "others" not in measure(replace(load, usage_after=replace(load.usage_after, host_cpu_s=0.0))).cpu


def test_shares_of_the_machine() -> None:
    measurement = measure(run(latencies()))
    # 10 s of work in 20 s on two cores: 5 nginx, 2.5 post, 1.25 jaeger, 1.25 generator.
    expected = {"application": 7.5 / 40, "generator": 1.25 / 40, "jaeger": 1.25 / 40, "tailor": 0.1 / 40}
    assert dict(measurement.cpu) == pytest.approx(expected | {"others": 0.0})
    assert measurement.service_cpu_s["nginx"] == pytest.approx(5.0)
    assert measurement.pressure_cpu == pytest.approx(1 / 20)
    assert measurement.stolen_cpu == 0


def test_an_objective_is_any_linear_combination() -> None:
    measurement = measure(
        run(latencies()), with_objective(Term("p99.9", 0.5), Term("mean", 2.0), Term("throughput", -0.01))
    )
    q = measurement.quantities
    assert measurement.value == pytest.approx(
        0.5 * q["p99.9"].value + 2 * q["mean"].value - 0.01 * q["throughput"].value
    )


def test_an_unknown_quantity_is_refused() -> None:
    with pytest.raises(InputError, match="unknown quantity"):
        measure(run(latencies()), with_objective(Term("median")))


def test_failed_requests_are_infinitely_slow_and_past_the_limit() -> None:
    slow = latencies()
    slow[1000:1300] = math.inf
    measurement = measure(run(slow))
    assert measurement.quantities["p95"].value == math.inf
    assert (measurement.value, measurement.failed_requests) == (None, 300)
    assert "300 of 4000 requests failed (7.50%: 300 status 500); the limit is 0.10%" in measurement.infeasible
    assert not measurement.invalid


def test_few_failures_are_allowed_but_reach_into_the_mean() -> None:
    slow = latencies()
    slow[2000:2003] = math.inf
    load = run(slow)
    assert measure(load).infeasible == ()
    measurement = measure(load, with_objective(Term("mean")))
    assert measurement.value is None
    assert measurement.infeasible == (
        "the objective is infinite: 3 of 4000 requests failed (3 status 500), and a failed request is infinitely slow",
    )


def test_a_queue_that_grows_is_overload_and_not_measured_again() -> None:
    # Replies come at 150 requests/s.
    waiting = np.arange(REQUESTS) * (1000 / 150 - 1000 / 200) + 5
    measurement = measure(run(waiting))
    assert measurement.invalid == ()
    assert measurement.value is None
    assert any("150" in reason and "of 200.0 wanted" in reason for reason in measurement.infeasible)
    assert any("latency moved within the window" in warning for warning in measurement.warnings)


def test_requests_in_flight_at_the_edges_are_no_overload() -> None:
    # 20 requests are always under way; the last of the window are answered after it.
    measurement = measure(run(np.where(np.arange(REQUESTS) < 1000, 5.0, 100.0) + latencies() / 100))
    assert measurement.infeasible == ()


def test_a_slow_ramp_is_not_stationary() -> None:
    measurement = measure(run(latencies() * np.linspace(1, 4, REQUESTS)))
    assert measurement.value is None
    assert len(measurement.invalid) == 1
    assert measurement.invalid[0].startswith("latency moved within the window: the ")


def test_a_late_generator() -> None:
    [reason] = measure(run(latencies(), lag_ms=2.0)).invalid
    assert reason.startswith("the generator sent requests late: p99 of its lag is 2 ms")


def test_a_generator_that_did_not_keep_its_schedule() -> None:
    [reason] = measure(run(latencies()), rate_rps=300.0).invalid
    assert reason == "the generator scheduled 4000 requests where 6000 were wanted"


def test_a_generator_that_did_not_send() -> None:
    load = run(latencies())
    sent = load.sent_ns.copy()
    sent[4000:] = 0
    assert "the generator did not send 1000 of 4000 requests" in measure(replace(load, sent_ns=sent)).invalid


def test_stolen_time() -> None:
    [reason] = measure(stolen(run(latencies()), 1.2)).invalid
    assert reason == "3.0% of the machine's CPU time was stolen by its host; the limit is 2.0%"


def test_missing_spans() -> None:
    load = run(latencies())
    [reason] = measure(load, spans=spans_of_run(load, keep=0.99)).invalid
    assert reason == "40 of 4000 spans are missing (1.00%); the limit is 0.10%"


def test_more_spans_than_were_created() -> None:
    load = run(latencies())
    [reason] = measure(load, created=3900).invalid
    assert reason.startswith("100 more spans were read than the 3900 created")


def test_services_that_do_not_count_are_checked_by_their_roots() -> None:
    load = run(latencies())
    measurement = measure(load, created=None)
    assert measurement.invalid == ()
    assert any("do not count their spans" in warning for warning in measurement.warnings)
    [reason] = measure(load, created=None, spans=spans_of_run(load, keep=0.99)).invalid
    assert reason.startswith("40 of 4000 root spans are missing")


@pytest.mark.parametrize(
    ("answered", "said"), [(0.0, "critical path is not known"), (0.25, "known of these only"), (0.75, ""), (1.0, "")]
)
def test_services_whose_spans_do_not_join_are_said_with_the_remedy(answered: float, said: str) -> None:
    load = run(latencies())
    measurement = measure(load, spans=spans_of_run(load, answered=answered), created=None)
    assert measurement.joined == pytest.approx(answered)
    about = [warning for warning in measurement.warnings if "requests' traces" in warning]
    assert len(about) == bool(said)
    assert all(said in warning and "tracing.propagation" in warning for warning in about)
    assert measurement.invalid == ()


def test_root_spans_that_the_generator_kept_are_its_own_latencies_and_the_traces_may_be_a_sample() -> None:
    load = run(latencies())
    kept = replace(load, ids=np.zeros((REQUESTS, 24), np.uint8))
    assert len(kept.roots) == 2_000
    sample = spans_of_run(load, keep=0.5, slower=3.0, answered=1.0)
    measurement = measure(kept, spans=sample, created=None)
    assert (measurement.invalid, measurement.warnings, measurement.joined) == ((), (), 1.0)
    assert measurement.value == measurement.generator_p95_ms
    assert measurement.quantities["p95"].count == IN_WINDOW
    measurement = measure(kept, spans=spans_of_run(load, keep=0.25, answered=1.0), created=None)
    assert measurement.invalid == ()
    assert any(warning.startswith("1000 of 2000 traces could not be used") for warning in measurement.warnings)


def test_spans_and_generator_disagree() -> None:
    load = run(latencies())
    [reason] = measure(load, spans=spans_of_run(load, slower=1.1)).invalid
    assert "differ by 10.0%; the limit is 5.0%" in reason


def test_no_root_span_is_invalid_and_the_generator_s_numbers_describe_it() -> None:
    load = run(latencies())
    measurement = measure(load, spans=span_table([Row("nginx", 0, 5, kind="server")]))
    assert measurement.value is None
    assert any("none of the 1 spans read is a root span" in reason for reason in measurement.invalid)
    assert measurement.quantities["p95"].value == measurement.generator_p95_ms


def test_without_tracing_the_generator_s_latencies_count() -> None:
    load = replace(run(latencies()), spans_created=0)
    measurement = measure(load, spans=span_table([]), created=None, traced=False)
    assert (measurement.invalid, measurement.warnings) == ((), ())
    assert measurement.value == measurement.generator_p95_ms


def test_a_window_without_requests_has_no_numbers() -> None:
    measurement = measure(run(latencies(100)))
    assert measurement.value is None
    assert measurement.quantities == {}
    assert "the generator scheduled 0 requests where 4000 were wanted" in measurement.invalid


def test_few_requests_are_marked() -> None:
    measurement = measure(run(latencies(500), rate_rps=20.0), rate_rps=20.0)
    assert "p95 has low confidence: 400 requests, fewer than 1,000" in measurement.warnings
    assert "400 requests are too few to check that the window is stationary" in measurement.warnings


def test_cpu_that_was_not_read_is_said() -> None:
    measurement = measure(replace(run(latencies()), usage_before=None))
    assert measurement.stolen_cpu is None
    assert measurement.cpu == {}
    assert "CPU use was not read: stolen time and shares are unknown" in measurement.warnings


def test_limits_are_the_application_s_own() -> None:
    tolerant = replace(APPLICATION, limits=Limits(missing_spans=0.02))
    load = run(latencies())
    assert measure(load, tolerant, spans=spans_of_run(load, keep=0.99)).invalid == ()


@pytest.mark.parametrize(("loop", "valid"), [("open", False), ("paced", False), ("closed", True)])
def test_a_closed_loop_has_no_rate_that_it_could_miss(loop: Loop, valid: bool) -> None:
    """A quarter of the requests that the rate asks for; the latencies are all good."""
    load = replace(run(latencies(1250), rate_rps=50.0), loop=loop, timing="sent")
    measurement = measure(load, created=0, traced=False)
    assert (measurement.invalid == ()) == valid
    assert any("closed loop" in warning for warning in measurement.warnings) == (loop != "open")
    if not valid:
        assert "scheduled 1000 requests where 4000 were wanted" in measurement.invalid[0]


def test_a_lag_that_is_not_known_is_not_checked_and_not_zero() -> None:
    load = run(latencies(), lag_ms=3.0)
    assert any("sent requests late" in reason for reason in measure(load, traced=False).invalid)
    measurement = measure(replace(load, timing="sent"), traced=False)
    assert measurement.invalid == ()
    assert measurement.lag_p99_ms is None
    assert any("its lag is unknown" in warning for warning in measurement.warnings)


def test_of_a_distribution_only_what_it_tells_is_computed() -> None:
    """Latencies that rise over the window; without their times nothing says so."""
    rising = np.concatenate([latencies(1000), np.sort(latencies(4000))])
    load = run(rising)
    assert any("latency moved within the window" in reason for reason in measure(load, traced=False).invalid)
    start, _ = load.edges_ns
    kept = slice(1000, None)
    took = load.end_ns[kept] - load.due_ns[kept]
    due = np.full(4000, start, np.int64)
    told = replace(
        load, timing="distribution", due_ns=due, sent_ns=due, end_ns=due + took, status=load.status[kept],
        ok=load.ok[kept], request_class=load.request_class[kept],
    )  # fmt: skip
    measurement = measure(told, traced=False)
    assert measurement.invalid == ()
    assert measurement.value == pytest.approx(np.sort(rising[1000:])[3799], rel=1e-5)
    assert (measurement.lag_p99_ms, measurement.warmup_needed_s) == (None, 0.0)
    assert any("only the distribution of latencies" in warning for warning in measurement.warnings)


def test_cpu_time_of_a_generator_that_is_not_known_is_no_share() -> None:
    load = run(latencies())
    assert load.usage_before is not None
    assert load.usage_after is not None
    before, after = (
        replace(usage, cpu_s={name: used for name, used in usage.cpu_s.items() if name != "loadgen"})
        for usage in (load.usage_before, load.usage_after)
    )
    measurement = measure(replace(load, cpu_s=None, usage_before=before, usage_after=after))
    assert "generator" not in measurement.cpu
    assert measurement.cpu["others"] > measure(load).cpu["others"]
