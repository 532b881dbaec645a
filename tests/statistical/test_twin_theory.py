"""The simulator against queues whose answers are known: within its own 99.9 % intervals, at fixed seeds.

Each case is 20 independent replications; alpha is 0.001 for each comparison, so that a correct simulator would fail one
of the dozen comparisons once in 80 choices of the seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from framework.twin.simulator.draws import EXPONENTIAL, LOGNORMAL, arrivals
from framework.twin.simulator.program import AGAIN, CALL, CPU, DELAY, END, LOOP, Builder, Program
from framework.twin.simulator.simulate import Outcome, simulate

pytestmark = pytest.mark.statistical

REPLICATIONS = 20
ALPHA = 0.001


def run(program: Program, rate: float, seconds: float, seed: int) -> tuple[Outcome, NDArray[np.bool_]]:
    due = arrivals(rate, seconds, True, np.random.default_rng(seed))
    simulated = simulate(program, due, np.zeros(len(due), np.int32), seed=seed, until_s=10 * seconds)
    assert np.isfinite(simulated.latency_s).all(), "every request that enters leaves"
    return simulated, due > 0.1 * seconds


def agrees(measure: Callable[[int], float], theory: float) -> None:
    """The mean over replications and its interval hold the theoretical value."""
    values = np.array([measure(seed) for seed in range(1, REPLICATIONS + 1)])
    half = stats.t.ppf(1 - ALPHA / 2, REPLICATIONS - 1) * values.std(ddof=1) / math.sqrt(REPLICATIONS)
    assert abs(values.mean() - theory) < half, f"{values.mean()} +- {half}, theory says {theory}"
    assert half < 0.1 * theory, "the interval is narrow enough to mean something"


def station(workers: int, cores: float, kind: int = EXPONENTIAL, mean: float = 1.0, spread: float = 0.0) -> Program:
    build = Builder()
    build.host(cores)
    build.add_service("s", workers=workers)
    work = build.distribution(kind, mean, spread)
    root = build.begin("s", "answer")
    build.add(CPU, work)
    build.add(END)
    build.request(root, 1.0)
    return build.program()


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_m_m_1(load: float) -> None:
    """One worker on one core serves first come, first served: W = 1 / (mu - lambda), exponentially distributed."""
    program = station(workers=1, cores=1)

    def mean(seed: int) -> float:
        simulated, kept = run(program, load, 20_000, seed)
        return float(simulated.latency_s[kept].mean())

    def p95(seed: int) -> float:
        simulated, kept = run(program, load, 20_000, seed)
        return float(np.quantile(simulated.latency_s[kept], 0.95))

    agrees(mean, 1 / (1 - load))
    agrees(p95, -math.log(0.05) / (1 - load))


@pytest.mark.parametrize("servers", [2, 5])
def test_m_m_c(servers: int) -> None:
    """Erlang's C formula."""
    load = 0.8 * servers
    program = station(workers=servers, cores=servers)
    below = sum(load**k / math.factorial(k) for k in range(servers))
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    waits = last / (below + last)

    def mean(seed: int) -> float:
        simulated, kept = run(program, load, 10_000, seed)
        return float(simulated.latency_s[kept].mean())

    agrees(mean, 1 + waits / (servers - load))


@pytest.mark.parametrize("spread", [0.5, 1.2])
def test_m_g_1_processor_sharing(spread: float) -> None:
    """Without a limit on workers a core is shared: W = S / (1 - rho), whatever the distribution (insensitivity)."""
    program = station(workers=0, cores=1, kind=LOGNORMAL, spread=spread)

    def mean(seed: int) -> float:
        simulated, kept = run(program, 0.7, 20_000, seed)
        return float(simulated.latency_s[kept].mean())

    agrees(mean, 1 / 0.3)


def test_an_open_tandem() -> None:
    """Jackson: two stations one after the other are independent M/M/1 queues (the caller holds nothing)."""
    build = Builder()
    for name in ("front", "back"):
        build.add_service(name, [build.host(1)])
    edge = build.edge("front", "back")
    fast, slow = build.distribution(EXPONENTIAL, 0.5), build.distribution(EXPONENTIAL, 1.0)
    answer = build.begin("back", "answer")
    build.add(CPU, slow)
    build.add(END)
    root = build.begin("front", "root")
    build.add(CPU, fast)
    build.add(CALL, answer, edge)
    build.add(END)
    build.request(root, 1.0)
    program = build.program()

    def mean(seed: int) -> float:
        simulated, kept = run(program, 0.7, 10_000, seed)
        return float(simulated.latency_s[kept].mean())

    agrees(mean, 0.5 / (1 - 0.35) + 1.0 / (1 - 0.7))


def test_a_closed_network() -> None:
    """Ten clients with a think time of 5 s and one station: mean value analysis gives the exact response time."""
    clients, think, rounds = 10, 5.0, 1_000
    build = Builder()
    build.add_service("client", [build.host(1)])
    build.add_service("server", [build.host(1)])
    edge = build.edge("client", "server")
    work, pause = build.distribution(EXPONENTIAL, 1.0), build.distribution(EXPONENTIAL, think)
    count = build.distribution(0, float(rounds))
    answer = build.begin("server", "answer")
    build.add(CPU, work)
    build.add(END)
    root = build.begin("client", "root")
    again = build.add(LOOP, count)
    build.add(DELAY, pause)
    build.add(CALL, answer, edge)
    build.add(AGAIN, 0, again)
    build.land(again)
    build.add(END)
    build.request(root, 1.0)
    program = build.program()
    response, queue = 1.0, 0.0
    for n in range(1, clients + 1):
        response = 1.0 + queue
        queue = n / (response + think) * response

    def mean(seed: int) -> float:
        due = np.zeros(clients)
        simulated = simulate(program, due, np.zeros(clients, np.int32), seed=seed, until_s=1e9)
        calls = simulated.span_parent >= 0
        started, ended = simulated.span_start[calls], simulated.span_end[calls]
        late = (started > 200) & (started < 4_000)
        return float((ended - started)[late].mean())

    agrees(mean, response)
