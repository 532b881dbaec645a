"""The simulator, small and exact: who waits for what, and that nothing is lost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from framework.twin.simulator.draws import CONSTANT, EXPONENTIAL, LOGNORMAL, arrivals, draw, normal, uniform
from framework.twin.simulator.program import BRANCH, CALL, CPU, DELAY, END, FORK, JOIN, SPAWN, Builder, Program
from framework.twin.simulator.simulate import MOST_TRACED, Outcome, simulate, traced_of


def go(program: Program, due: list[float], seed: int = 1, until: float = 1e6) -> Outcome:
    return simulate(program, np.array(due), np.zeros(len(due), np.int32), seed=seed, until_s=until)


class App:
    """A front end that calls one back end, everything constant; a test changes what it is about."""

    def __init__(
        self,
        *,
        cores: float = 8,
        switching: float = 0.0,
        sharing: float = 0.0,
        front: dict[str, Any] | None = None,
        back: dict[str, Any] | None = None,
        edge: dict[str, Any] | None = None,
    ) -> None:
        self.build = build = Builder()
        build.host(cores, switching, sharing)
        build.add_service("front", **(front or {}))
        build.add_service("back", **(back or {}))
        self.edge = build.edge("front", "back", **(edge or {}))
        self.second = build.distribution(CONSTANT, 1.0)
        self.back = build.begin("back", "answer")
        build.add(CPU, self.second)
        build.add(END)

    def program(self, *code: tuple[int, int, int]) -> Program:
        root = self.build.begin("front", "root")
        for instruction in code:
            self.build.add(*instruction)
        self.build.add(END)
        self.build.request(root, 1.0)
        return self.build.program()

    def call(self) -> tuple[int, int, int]:
        return CALL, self.back, self.edge

    def fork(self) -> tuple[int, int, int]:
        return FORK, self.back, self.edge


def test_calls_follow_each_other_and_forks_run_together() -> None:
    app = App()
    assert go(app.program(app.call(), app.call(), (CPU, 0, 0)), [0.0]).latency_s[0] == pytest.approx(3.0)
    app = App()
    assert go(app.program(app.fork(), app.fork(), (JOIN, 0, 0), (CPU, 0, 0)), [0.0]).latency_s[0] == pytest.approx(2.0)
    app = App()
    assert go(app.program(app.fork(), (CPU, 0, 0)), [0.0]).latency_s[0] == pytest.approx(1.0), (
        "an end waits for its forks"
    )
    app = App()
    run = go(app.program((SPAWN, app.back, app.edge)), [0.0])
    assert run.latency_s[0] == 0.0
    assert run.span_end.tolist() == [0.0, 1.0], "nobody waits for what was spawned, but it runs"


def quota_program(quota: float, demand_s: float = 0.01, threads: int = 0) -> Program:
    build = Builder()
    build.host(64)
    build.add_service("s", quota=quota, threads=threads)
    work = build.distribution(CONSTANT, demand_s)
    root = build.begin("s", "answer")
    build.add(CPU, work)
    build.add(END)
    build.request(root, 1.0)
    return build.program()


@pytest.mark.parametrize("threads", [0, 20])
def test_a_quota_is_counted_in_periods(threads: int) -> None:
    """One core's worth is 100 ms of each 100 ms: what began before it was used up ends, the others stand still."""
    run = go(quota_program(1.0, 0.011, threads), [0.0] * 25)
    ended = np.sort(run.latency_s)
    assert ended[:10] == pytest.approx([0.011] * 10)
    assert ended[10:19] == pytest.approx([0.111] * 9), "10 ms were overdrawn"
    assert ended[19:] == pytest.approx([0.211] * 6)
    assert go(quota_program(0.0), [0.0] * 25).latency_s == pytest.approx([0.01] * 25), "none is none"


def test_a_quota_bounds_the_throughput() -> None:
    due = arrivals(150.0, 20.0, True, np.random.default_rng(3))
    run = simulate(quota_program(1.0), due, np.zeros(len(due), np.int32), seed=1, until_s=1e6)
    assert np.isfinite(run.latency_s).all(), "nothing is forgotten"
    last = float((due + run.latency_s).max())
    assert last == pytest.approx(0.01 * len(due), rel=0.02), "100 a second"
    overdrawn = go(quota_program(0.5, demand_s=0.19), [0.0, 0.0])
    assert np.sort(overdrawn.latency_s) == pytest.approx([0.19, 0.49]), "a debt of 140 ms takes three periods to pay"


def test_cores_are_shared_and_switching_costs() -> None:
    app = App(cores=1)
    assert go(app.program(app.fork(), app.fork(), (JOIN, 0, 0)), [0.0]).latency_s[0] == pytest.approx(2.0)
    app = App(cores=1, switching=0.5)
    assert go(app.program(app.fork(), app.fork(), (JOIN, 0, 0)), [0.0]).latency_s[0] == pytest.approx(3.0)


def test_cores_that_compute_at_the_same_time_slow_each_other_down() -> None:
    forks = 3
    expected = {1: 1.0, 2: 1.25, 3: 1.5}  # of three cores: all slowed by a half when none is idle
    for count in range(1, forks + 1):
        app = App(cores=3, sharing=0.5)
        run = go(app.program(*[app.fork()] * count, (JOIN, 0, 0)), [0.0])
        assert run.latency_s[0] == pytest.approx(expected[count])
        assert run.cpu_s.sum() == pytest.approx(count * expected[count]), "the kernel counts time on a core, not work"


def test_workers_threads_and_connections_make_others_wait() -> None:
    limits: list[dict[str, Any]] = [
        {"back": {"workers": 1}}, {"back": {"threads": 1}}, {"edge": {"connections": 1}}
    ]  # fmt: skip
    for limit in limits:
        app = App(**limit)
        run = go(app.program(app.fork(), app.fork(), app.fork(), (JOIN, 0, 0)), [0.0])
        assert run.latency_s[0] == pytest.approx(3.0), limit
        assert sorted(run.span_end[1:]) == pytest.approx([1.0, 2.0, 3.0])


def test_a_worker_is_held_while_its_call_waits_and_a_thread_is_not() -> None:
    app = App(front={"workers": 1})
    assert go(app.program(app.call()), [0.0, 0.0]).latency_s.tolist() == pytest.approx([1.0, 2.0])
    app = App(front={"threads": 1})
    assert go(app.program(app.call()), [0.0, 0.0]).latency_s.tolist() == pytest.approx([1.0, 1.0])


def test_a_full_queue_turns_away() -> None:
    app = App(back={"workers": 1, "queue": 1})
    run = go(app.program(app.call()), [0.0, 0.0, 0.0])
    assert run.failed.tolist() == [False, False, True]
    assert run.latency_s.tolist() == pytest.approx([1.0, 2.0, 0.0])


def test_new_connections_cost_and_idle_ones_are_kept() -> None:
    app = App(edge={"idle": 1, "setup": 0.5})
    run = go(app.program(app.call()), [0.0, 10.0])
    assert run.latency_s.tolist() == pytest.approx([1.5, 1.0])
    assert run.span_start.tolist() == pytest.approx([0.0, 0.5, 10.0, 10.0]), "it is the caller's time"
    assert run.span_enter.tolist() == pytest.approx([0.0, 0.5, 10.0, 10.0])
    app = App(edge={"idle": 0, "setup": 0.5})
    assert go(app.program(app.call()), [0.0, 10.0]).latency_s.tolist() == pytest.approx([1.5, 1.5])


def test_opening_a_connection_takes_time_beside_computing() -> None:
    app = App(cores=1, edge={"idle": 1, "opening": 0.25})
    run = go(app.program(app.call()), [0.0, 10.0])
    assert run.latency_s.tolist() == pytest.approx([1.25, 1.0])
    assert run.cpu_s.sum() == pytest.approx(2.0)
    assert run.span_start.tolist() == pytest.approx([0.0, 0.25, 10.0, 10.0]), "it is the caller's time"


def test_a_call_may_be_given_up_before_its_connection_is_open() -> None:
    app = App(edge={"opening": 0.25, "timeout": 0.1})
    run = go(app.program(app.call()), [0.0])
    assert (run.latency_s[0], run.failed[0]) == (pytest.approx(0.1), True)
    assert np.all(run.span_end >= run.span_start)


def test_the_network_takes_its_time_both_ways() -> None:
    app = App(edge={"latency": 0.25})
    run = go(app.program(app.call()), [0.0])
    assert run.latency_s[0] == pytest.approx(1.5)
    assert (run.span_start[1], run.span_enter[1], run.span_end[1]) == pytest.approx((0.0, 0.25, 1.25))


def test_a_call_that_takes_too_long_is_given_up_and_tried_again() -> None:
    app = App(edge={"timeout": 0.6})
    run = go(app.program(app.call()), [0.0])
    assert (run.latency_s[0], run.failed[0]) == (pytest.approx(0.6), True)
    app = App(edge={"timeout": 0.6, "retries": 2, "connections": 1})
    run = go(app.program(app.call(), (CPU, 0, 0)), [0.0])
    assert (run.latency_s[0], run.failed[0]) == (pytest.approx(3 * 0.6 + 1.0), True)
    assert len(run.span_op) == 4
    assert run.cpu_s[1] == pytest.approx(3.0), "the callee does not notice"


def test_what_was_given_up_while_it_waited_for_a_connection_never_runs() -> None:
    app = App(edge={"timeout": 0.5, "connections": 1})
    run = go(app.program((SPAWN, app.back, app.edge), app.call()), [0.0])
    assert (run.latency_s[0], run.failed[0]) == (pytest.approx(0.5), True)
    assert run.cpu_s[1] == pytest.approx(1.0)
    assert run.span_end.tolist() == pytest.approx([0.5, 1.0, -1.0])


def test_a_branch_is_taken_as_often_as_it_is_likely() -> None:
    app = App()
    chance = app.build.chance(0.3)
    root = app.build.begin("front", "root")
    place = app.build.add(BRANCH, chance)
    app.build.add(*app.call())
    app.build.land(place)
    app.build.add(END)
    app.build.request(root, 1.0)
    run = go(app.build.program(), [float(i) for i in range(4000)])
    assert (run.latency_s > 0).mean() == pytest.approx(0.3, abs=0.03)


def test_the_same_requests_have_the_same_demands_under_another_configuration() -> None:
    def program(workers: int) -> Program:
        build = Builder()
        build.host(4)
        build.add_service("s", workers=workers)
        work = build.distribution(EXPONENTIAL, 1.0)
        root = build.begin("s", "root")
        build.add(CPU, work)
        build.add(END)
        build.request(root, 1.0)
        return build.program()

    due = [0.5 * i for i in range(200)]
    before, after = go(program(0), due), go(program(2), due)
    assert before.cpu_s[0] == pytest.approx(after.cpu_s[0])
    assert (after.latency_s >= before.latency_s - 1e-9).all()
    assert not (go(program(0), due, seed=2).latency_s == before.latency_s).any()


def test_a_run_is_a_function_of_its_arguments() -> None:
    program = random_program(3)
    due = arrivals(2.0, 50.0, True, np.random.default_rng(1)).tolist()
    run, again = go(program, due), go(program, due)
    assert run.latency_s.tolist() == again.latency_s.tolist()
    assert run.span_end.tolist() == again.span_end.tolist()


def overloaded() -> tuple[Program, Any, Any]:
    due = arrivals(40.0, 10.0, True, np.random.default_rng(1))
    app = App(cores=8, back={"workers": 3}, edge={"connections": 20, "latency": 0.1, "timeout": 30.0})
    return app.program(app.call(), app.fork()), due, np.zeros(len(due), np.int32)


def test_what_is_traced_changes_nothing_but_the_spans() -> None:
    program, due, kinds = overloaded()
    whole = simulate(program, due, kinds, seed=1, until_s=60.0)
    third = np.arange(len(due)) % 3 == 0
    some = simulate(program, due, kinds, seed=1, until_s=60.0, traced=third)
    none = simulate(program, due, kinds, seed=1, until_s=60.0, traced=np.zeros(len(due), np.bool_))
    for run in (some, none):
        assert run.latency_s.tolist() == whole.latency_s.tolist()
        assert run.cpu_s.tolist() == whole.cpu_s.tolist()
        assert run.events == whole.events
    kept = third[whole.span_request]
    assert some.span_start.tolist() == whole.span_start[kept].tolist()
    assert some.span_end.tolist() == whole.span_end[kept].tolist()
    assert some.span_op[some.span_parent].tolist() == whole.span_op[whole.span_parent[kept]].tolist()
    assert len(none.span_op) == 0


def test_many_requests_leave_the_traces_of_some() -> None:
    assert traced_of(0).tolist() == []
    assert traced_of(5).all()
    assert traced_of(MOST_TRACED).all()
    assert traced_of(MOST_TRACED + 1).sum() == MOST_TRACED // 2 + 1
    assert traced_of(10 * MOST_TRACED).sum() == MOST_TRACED


def test_room_is_found_by_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    program, due, kinds = overloaded()
    wide = simulate(program, due, kinds, seed=1, until_s=60.0)
    monkeypatch.setattr("framework.twin.simulator.simulate.FRAMES", 8)
    narrow = simulate(program, due, kinds, seed=1, until_s=60.0)
    assert narrow.latency_s.tolist() == wide.latency_s.tolist()
    assert narrow.span_end.tolist() == wide.span_end.tolist()


@pytest.mark.parametrize("before", range(30, 49))
def test_timers_find_room_too(monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    """Of answered calls the timeouts stay set; then several frames set more timers at one moment, without new calls."""
    due = [*np.arange(0.0, 10.0 * before, 10.0), *(6 * [10.0 * before])]

    def latencies() -> list[float]:
        app = App(edge={"timeout": 1e6})
        return list(go(app.program(app.call(), (DELAY, 0, 0)), due).latency_s)

    wanted = latencies()
    monkeypatch.setattr("framework.twin.simulator.simulate.FRAMES", 12)
    assert latencies() == wanted


def test_a_thread_that_may_run_on_two_hosts_takes_the_emptier() -> None:
    def latencies(reach: list[int]) -> list[float]:
        build = Builder()
        for cores in (1, 3):
            build.host(cores)
        build.add_service("s", reach)
        work = build.distribution(CONSTANT, 1.0)
        root = build.begin("s", "root")
        build.add(CPU, work)
        build.add(END)
        build.request(root, 1.0)
        return list(go(build.program(), [0.0, 0.0, 0.0, 0.0]).latency_s)

    assert latencies([0]) == pytest.approx([4.0] * 4)
    assert latencies([1]) == pytest.approx([4 / 3] * 4)
    assert latencies([0, 1]) == pytest.approx([1.0] * 4)


def random_program(seed: int) -> Program:
    """Services with every kind of limit that call each other without a circle."""
    rng = np.random.default_rng(seed)
    build = Builder()
    for _ in range(2):
        build.host(float(rng.integers(1, 4)), 0.1)
    count = 6
    for i in range(count):
        limits = {"workers": int(rng.integers(0, 3)), "queue": int(rng.integers(0, 4))}
        quota = float(rng.choice([0.0, 0.0, 0.5, 2.0]))
        build.add_service(
            f"s{i}", [[0], [1], [0, 1]][rng.integers(3)], threads=int(rng.integers(0, 3)), quota=quota, **limits
        )
    work = [build.distribution(kind, 0.2, 0.7) for kind in (CONSTANT, EXPONENTIAL, LOGNORMAL)]
    half = build.chance(0.5)
    made: list[int] = []
    for i in reversed(range(count)):
        callees = [(op, j) for op, j in zip(made, range(count - 1, i, -1), strict=True)]
        edges = [build.edge(f"s{i}", f"s{j}", connections=int(rng.integers(0, 3)), idle=1, setup=0.01,
                            latency=float(rng.choice([0.0, 0.05])), timeout=float(rng.choice([0.0, 0.8])),
                            retries=int(rng.integers(0, 2))) for _, j in callees]  # fmt: skip
        op = build.begin(f"s{i}", "op")
        build.add(CPU, int(rng.choice(work)))
        for (callee, _), edge in zip(callees, edges, strict=True):
            place = build.add(BRANCH, half)
            build.add(int(rng.choice([CALL, FORK, SPAWN])), callee, edge)
            build.land(place)
        build.add(JOIN)
        build.add(DELAY, work[1])
        build.add(END)
        made.append(op)
    build.request(made[-1], 1.0)
    return build.program()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), rate=st.floats(0.2, 20.0))
def test_every_request_ends_once_and_spans_lie_inside_their_requests(seed: int, rate: float) -> None:
    program = random_program(seed)
    due = arrivals(rate, 30.0, True, np.random.default_rng(seed))
    run = simulate(program, due, np.zeros(len(due), np.int32), seed=seed, until_s=1e9)
    assert np.isfinite(run.latency_s).all()
    assert (run.latency_s >= 0).all()
    roots = run.span_parent == -1
    assert np.bincount(run.span_request[roots], minlength=len(due)).tolist() == [1] * len(due)
    ended = run.span_end >= 0
    assert (run.span_end[ended] >= run.span_start[ended]).all()
    inner = np.flatnonzero(~roots)
    assert (run.span_start[inner] >= run.span_start[run.span_parent[inner]] - 1e-9).all()
    assert (run.span_request[inner] == run.span_request[run.span_parent[inner]]).all()


def test_an_overloaded_run_ends_in_time_and_says_what_did_not_finish() -> None:
    app = App(cores=1, back={"workers": 1})
    run = go(app.program(app.call()), [0.1 * i for i in range(100)], until=20.0)
    assert 0 < np.isinf(run.latency_s).sum() < 100


def test_draws_have_their_distributions() -> None:
    for u in (1e-12, 1e-4, 0.02, 0.3, 0.5, 0.8, 0.99, 1 - 1e-9):
        assert normal(u) == pytest.approx(ndtri(u), rel=1e-14, abs=1e-15)
    us = np.array([uniform(np.uint64(7), np.uint64(i)) for i in range(20_000)])
    assert 0 < us.min() < us.max() < 1
    assert us.mean() == pytest.approx(0.5, abs=0.01)
    for kind, spread in ((CONSTANT, 0.0), (EXPONENTIAL, 0.0), (LOGNORMAL, 0.8)):
        values = np.array([draw(kind, 2.0, spread, u) for u in us])
        assert values.mean() == pytest.approx(2.0, rel=0.03)
    assert np.log([draw(LOGNORMAL, 2.0, 0.8, u) for u in us]).std() == pytest.approx(0.8, rel=0.02)
    assert math.isclose(draw(CONSTANT, 2.0, 0.0, 0.3), 2.0)
