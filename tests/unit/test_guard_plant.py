"""The plant of the guard: its queue, its interference, its days, and what is run on it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.guard.bench import Case, run, run_oracle
from framework.guard.plant.days import DAYS, SECONDS
from framework.guard.plant.interference import Division, effect, misses, stretch
from framework.guard.plant.kinds import BE_KINDS, LC_KINDS, MIXES, Machine
from framework.guard.plant.oracle import LEVELS, best_settings, setting_at
from framework.guard.plant.plant import Plant, division_of, host_of
from framework.guard.policies.off import Off
from framework.guard.policies.static import Static
from framework.guard.queueing import tail_s, waiting_probability
from framework.guard.tuning import space_of
from framework.model.guard import NOTHING, Setting

MACHINE = Machine()


def test_one_server_is_the_textbook_queue() -> None:
    """M/M/1: the response time is exponential with rate m - rate."""
    assert tail_s(50.0, 0.01, 1) == pytest.approx(-math.log(0.05) / 50.0, rel=1e-6)
    assert waiting_probability(1, 0.5) == pytest.approx(0.5)


def test_waiting_of_two_servers() -> None:
    """Erlang C for c = 2 in closed form: 2 r^2 / (1 + r), r = the utilisation."""
    assert waiting_probability(2, 1.2) == pytest.approx(2 * 0.6**2 / 1.6)


def test_an_idle_service_takes_its_service_time() -> None:
    assert tail_s(0.0, 0.01, 4) == pytest.approx(-math.log(0.05) * 0.01, rel=1e-6)


@given(st.floats(0.01, 0.95), st.integers(1, 32), st.floats(1.01, 2.0))
def test_a_tail_rises_with_the_rate_and_falls_with_servers(used: float, servers: int, more: float) -> None:
    rate = used * servers / 0.01
    assert tail_s(rate * min(more, 0.98 / used), 0.01, servers) >= tail_s(rate, 0.01, servers) * (1 - 1e-6)
    assert tail_s(rate, 0.01, servers + 1) <= tail_s(rate, 0.01, servers) * (1 + 1e-6)


def test_the_tail_is_that_of_a_simulated_queue() -> None:
    """Against Lindley's recursion for several servers: 300,000 requests, three servers at 80 %."""
    rng = np.random.default_rng(1)
    arrivals = np.cumsum(rng.exponential(1 / 240.0, 300_000))
    services = rng.exponential(0.01, len(arrivals))
    free, responses = [0.0] * 3, np.empty(len(arrivals))
    for index, (arrival, service) in enumerate(zip(arrivals, services, strict=True)):
        free.sort()
        free[0] = max(free[0], arrival) + service
        responses[index] = free[0] - arrival
    assert tail_s(240.0, 0.01, 3) == pytest.approx(float(np.quantile(responses, 0.95)), rel=0.03)


def test_less_cache_and_more_traffic_slow_a_service_down() -> None:
    assert misses(0.0, 8.0) == 1.0
    assert misses(4.0, 8.0) > misses(8.0, 8.0) > misses(16.0, 8.0)
    assert 1.0 == stretch(0.0) < stretch(0.5) < stretch(1.0) < stretch(1.5)
    lc = LC_KINDS["search"]
    alone = effect(MACHINE, lc, 1000.0, Division(8, 20, 0, {}, 0.0))
    assert alone.service_s == pytest.approx(lc.service_ms / 1e3, rel=0.02)
    fewer_ways = effect(MACHINE, lc, 1000.0, Division(8, 10, 10, {}, 0.0))
    beside = effect(MACHINE, lc, 1000.0, Division(5, 10, 10, {"stream": 3.0}, 0.0))
    shared = effect(MACHINE, lc, 1000.0, Division(8, 10, 10, {"stream": 3.0}, 0.0, shared=True))
    assert alone.service_s < fewer_ways.service_s < beside.service_s < shared.service_s
    assert beside.progress["stream"] < 3.0


def test_the_link_is_shaped() -> None:
    lc = LC_KINDS["hotel"]
    open_link = effect(MACHINE, lc, 1000.0, Division(4, 10, 10, {"network": 4.0}, math.inf))
    shaped = effect(MACHINE, lc, 1000.0, Division(4, 10, 10, {"network": 4.0}, 500.0))
    assert open_link.wait_s > 10 * shaped.wait_s
    assert open_link.be_mbps > shaped.be_mbps > 450.0
    assert shaped.progress["network"] < open_link.progress["network"]


@pytest.mark.parametrize("day", sorted(DAYS))
def test_days_are_loads_of_every_second(day: str) -> None:
    loads = DAYS[day](np.random.default_rng(3))
    assert loads.shape == (SECONDS,)
    assert loads.min() >= 0.02
    assert loads.max() <= 1.0
    assert np.array_equal(loads, DAYS[day](np.random.default_rng(3)))


@pytest.mark.parametrize("lc", sorted(LC_KINDS))
def test_alone_a_service_meets_its_target_at_its_peak(lc: str) -> None:
    plant = Plant(MACHINE, LC_KINDS[lc], np.full(60, 1.0), ("compute",), 1)
    latencies = [plant.step().latency_ms for _ in range(100)]
    assert max(latencies) <= LC_KINDS[lc].target_ms


def test_too_much_load_becomes_a_backlog_that_drains() -> None:
    loads = np.concatenate([np.full(10, 0.9), np.full(30, 0.1)])
    plant = Plant(MACHINE, LC_KINDS["search"], loads, ("compute",), 1)
    plant.set(Setting(True, 5, 5, 0.0))
    latencies = [plant.step().latency_ms for _ in range(80)]
    assert latencies[3] > latencies[0] > LC_KINDS["search"].target_ms
    assert latencies[-1] < LC_KINDS["search"].target_ms


def test_what_nobody_gave_nobody_uses() -> None:
    assert division_of(MACHINE, NOTHING, ("compute",)) == Division(8, 20, 0, {}, 0.0)
    paused = division_of(MACHINE, Setting(True, 4, 4, 0.0, True, frozenset({"compute"})), ("compute", "stream"))
    assert paused.be == {"stream": 4.0}
    assert paused.lc_cores == 4


def test_the_oracle_meets_the_target_at_every_level() -> None:
    settings = best_settings(MACHINE, "search", MIXES["memory"])
    assert len(settings) == LEVELS
    host = host_of(MACHINE, LC_KINDS["search"])
    for level, setting in enumerate(settings, start=1):
        division = division_of(MACHINE, setting, MIXES["memory"])
        rate = level / LEVELS * host.peak_rps
        got = effect(MACHINE, LC_KINDS["search"], rate, division)
        assert 1e3 * (tail_s(rate, got.service_s, division.lc_cores) + got.wait_s) <= host.target_ms
    assert settings[9].cores > settings[40].cores
    assert setting_at(settings, 0.0) == settings[0]
    assert setting_at(settings, 0.02) == settings[0]
    assert setting_at(settings, 0.021) == settings[1]
    assert setting_at(settings, 1.0) == settings[-1]


def test_a_day_on_the_plant_says_what_a_policy_costs() -> None:
    case = Case("search", "diurnal", "compute", 7)
    off, static, oracle = run(Off(), case), run(Static(cores=2), case), run_oracle(case)
    assert (off.work, off.violation) == (0.0, 0.0)
    assert static.work > 1.0
    assert oracle.work > static.work
    assert run(Static(cores=2), case) == static
    assert set(BE_KINDS) >= {kind for mix in MIXES.values() for kind in mix}


def test_numbers_without_an_effect_on_the_plant_are_not_tuned() -> None:
    names = {parameter.name for parameter in space_of("tailor").parameters}
    assert "network_share" in names
    assert not names & {"disk_share", "period_s"}
