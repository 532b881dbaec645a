"""The source's formulas, and what follows from them whatever the numbers are."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.energy.attribution import OTHERS, divided
from framework.energy.figures import ratio
from framework.energy.formulas import cpio, cpio_idle, eio, emio, joules_of
from framework.energy.schedule import steps
from framework.energy.windows import window_between
from framework.errors import FieldError, InputError, MeasurementInvalid
from framework.model.energy import STATES, CpuTimes, EnergyCounters, IoBytes, Joules, PowerCurve, ServiceCounters

seconds = st.floats(0, 1e5)
times = st.builds(CpuTimes, *[seconds] * len(STATES))
operations = st.floats(1, 1e12)
watts = st.floats(1, 5000)
cores = st.integers(1, 512)
clock = st.floats(1e8, 6e9)


@given(cpu=times, n=operations, p=watts, count=cores, f=clock)
def test_with_ip_1_the_joules_are_p_times_the_time(cpu: CpuTimes, n: float, p: float, count: int, f: float) -> None:
    joules = n * eio(cpio(cpu, f, n), cpio_idle(cpu, f, n), peak_w=p, idle_share=1.0, cores=count, frequency_hz=f)
    assert joules == pytest.approx(p * (cpu.total - cpu.steal) / count, rel=1e-9, abs=1e-9)


@given(cpu=times, n=operations, p=watts, ip=st.floats(0, 1), count=cores, f=clock, other=clock)
def test_it_is_linear_in_p_and_the_clock_cancels(
    cpu: CpuTimes, n: float, p: float, ip: float, count: int, f: float, other: float
) -> None:
    def joules(power: float, hertz: float) -> float:
        return eio(
            cpio(cpu, hertz, n), cpio_idle(cpu, hertz, n), peak_w=power, idle_share=ip, cores=count, frequency_hz=hertz
        )

    assert joules(2 * p, f) == pytest.approx(2 * joules(p, f))
    assert joules(p, f) == pytest.approx(joules(p, other), rel=1e-9)
    assert emio(joules(p, f)) == pytest.approx(1e6 * joules(p, f))


@given(cpu=times, n=operations, p=watts, ip=st.floats(0, 1), count=cores, f=clock)
def test_the_short_form_is_eio_times_the_operations(
    cpu: CpuTimes, n: float, p: float, ip: float, count: int, f: float
) -> None:
    long = n * eio(cpio(cpu, f, n), cpio_idle(cpu, f, n), peak_w=p, idle_share=ip, cores=count, frequency_hz=f)
    short = joules_of(cpu.busy, cpu.unused, peak_w=p, idle_share=ip, cores=count)
    assert short == pytest.approx(long, rel=1e-9, abs=1e-9)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0.1, 1e6)), min_size=1, max_size=8))
def test_a_ratio_lies_in_its_interval(pairs: list[tuple[float, float]]) -> None:
    above, below = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    of = ratio(above, below)
    assert of is not None
    assert of.value == pytest.approx(math.fsum(above) / math.fsum(below))
    assert of.low <= of.value <= of.high
    assert len(pairs) == 1 or of.low >= 0


def test_a_ratio_covers_the_truth() -> None:
    """Ten windows of different sizes, with errors in proportion to the root of their size: 95 % cover, nearly."""
    covered = 0
    for seed in range(400):
        random = np.random.default_rng(seed)
        below = random.uniform(50, 150, 10)
        above = 3.0 * below + np.sqrt(below) * random.standard_normal(10)
        of = ratio(above.tolist(), below.tolist())
        assert of is not None
        covered += of.low <= 3.0 <= of.high
    assert 365 <= covered <= 395
    assert ratio([1.0], [0.0]) is None


def test_the_source_s_own_server() -> None:
    """400 W and 8 cores, busy for one second in all of them, with a million I/Os: 400 J."""
    cpu = CpuTimes(user=6.0, system=2.0)
    value = eio(cpio(cpu, 2e9, 1e6), cpio_idle(cpu, 2e9, 1e6), peak_w=400, idle_share=0.7, cores=8, frequency_hz=2e9)
    assert emio(value) == pytest.approx(400.0)
    half = CpuTimes(user=3.0, system=1.0, idle=3.0, iowait=1.0)
    value = eio(cpio(half, 2e9, 1e6), cpio_idle(half, 2e9, 1e6), peak_w=400, idle_share=0.7, cores=8, frequency_hz=2e9)
    assert emio(value) == pytest.approx(400.0 * (0.5 + 0.7 * 0.5))


def test_without_io_or_out_of_range_it_is_refused() -> None:
    with pytest.raises(InputError, match="no I/O"):
        cpio(CpuTimes(user=1.0), 1e9, 0.0)
    with pytest.raises(InputError, match="no I/O"):
        cpio_idle(CpuTimes(user=1.0), 1e9, math.nan)
    good = {"peak_w": 1.0, "idle_share": 0.5, "cores": 1.0, "frequency_hz": 1e9}
    for name, value in (("peak_w", 0.0), ("idle_share", 1.1), ("cores", 0), ("frequency_hz", -1), ("idle_share", -0.1)):
        with pytest.raises(FieldError, match=name):
            eio(1.0, 1.0, **{**good, name: value})


@given(
    joules=st.floats(0, 1e7), length=st.floats(1e-3, 1e4), idle=st.floats(0, 1e4),
    cpu=st.dictionaries(st.text(max_size=5), st.floats(0, 1e5), max_size=5), busy=st.floats(0, 1e5),
)  # fmt: skip
def test_shares_add_up_to_the_whole(
    joules: float, length: float, idle: float, cpu: dict[str, float], busy: float
) -> None:
    cpu.pop(OTHERS, None)
    division = divided(joules, length, idle, cpu, busy)
    scale = 1e-9 * (1.0 + joules + idle * length)  # the active part is a difference of these
    assert division.idle + math.fsum(division.active.values()) == pytest.approx(joules, abs=scale)
    assert set(division.active) == {*cpu, OTHERS}


@given(before=times, after=times)
def test_states_add_up_and_never_shrink(before: CpuTimes, after: CpuTimes) -> None:
    grown = after.since(before)
    assert grown.total == pytest.approx(math.fsum(getattr(grown, state) for state in STATES))
    assert min(getattr(grown, state) for state in STATES) >= 0.0
    assert grown.total == pytest.approx(grown.busy + grown.unused + grown.steal)
    assert 0.0 <= grown.utilisation <= 1.0


@given(idle=st.floats(0.1, 500), more=st.floats(0, 1000), bend=st.floats(0.2, 3), u=st.floats(-1, 2))
def test_a_curve_stays_between_idle_and_full(idle: float, more: float, bend: float, u: float) -> None:
    curve = PowerCurve(idle, idle + more, bend)
    assert idle * (1 - 1e-9) <= curve.watts(u) <= (idle + more) * (1 + 1e-9)
    assert curve.watts(0.0) == pytest.approx(idle)
    assert curve.watts(1.0) == pytest.approx(idle + more)


# ---------------------------------------------------------------------- windows


def counters(at_s: float, joules: float | None, losses: int = 0, zone: str = "package-0") -> EnergyCounters:
    return EnergyCounters(
        at_s, CpuTimes(user=at_s, idle=at_s), 2,
        {"a": ServiceCounters(at_s / 2, at_s / 4, {"block": IoBytes(at_s, 0)})},
        {"device": IoBytes(512 * at_s, 0.0)}, (at_s, 2 * at_s),
        {} if joules is None else {zone: Joules.exactly(joules)}, losses,
    )  # fmt: skip


def test_a_window_is_the_growth_of_all() -> None:
    window = window_between(counters(10.0, 50.0), counters(14.0, 90.0), "run", 3, 0.02)
    assert (window.seconds, window.round, window.cpus) == (4.0, 3, 2)
    assert window.cpu == CpuTimes(user=4.0, idle=4.0)
    assert window.services["a"] == ServiceCounters(2.0, 1.0, {"block": IoBytes(4.0, 0.0)})
    assert window.io["device"].operations == 4.0
    assert window.network == (4.0, 8.0)
    assert window.whole == Joules.exactly(40.0)
    assert not window.invalid


@pytest.mark.parametrize(
    "after", [counters(14.0, None), counters(14.0, 90.0, losses=1), counters(14.0, 90.0, zone="package-1")]
)
def test_a_source_that_lost_count_tells_no_joules(after: EnergyCounters) -> None:
    window = window_between(counters(10.0, 50.0), after, "run", 0, 0.02)
    assert window.whole is None
    assert window.invalid


@pytest.mark.parametrize(
    ("idle", "steal", "says"),
    [
        (3.95, 0.0, ""),  # of four seconds of two CPUs: ticks
        (3.7, 0.05, "the host took away 3.8% of the CPU time; at most 2% (3.1% is in no state of the CPUs)"),
        (3.8, 0.2, "the host took away 2.5% of the CPU time; at most 2%"),
        (4.0, 0.1, ""),
    ],
)
def test_time_that_the_host_takes_away_leaves_the_window_out_also_untold(idle: float, steal: float, says: str) -> None:
    before = counters(10.0, 50.0)
    after = replace(counters(14.0, 90.0), cpu=CpuTimes(user=14.0, idle=10.0 + idle, steal=steal))
    window = window_between(before, after, "run", 0, 0.02)
    assert window.invalid == ((says,) if says else ())
    assert not window_between(before, after, "run", 0, 0.2).invalid


def test_a_window_without_time_is_refused() -> None:
    with pytest.raises(MeasurementInvalid):
        window_between(counters(10.0, 1.0), counters(10.0, 2.0), "run", 0, 0.02)


# ---------------------------------------------------------------------- the order of windows


def test_every_round_has_every_phase_and_rounds_stay_when_there_are_more() -> None:
    every = steps(8, (50.0, 100.0), ("baseline", "idle", "run"), seed=1)
    assert every[: 3 * 4] == steps(4, (50.0, 100.0), ("baseline", "idle", "run"), seed=1)
    for number in range(8):
        mine = [step for step in every if step.round == number]
        assert sum(step.baseline for step in mine) == 1
        assert sum(step.idle for step in mine) == 1
        assert sorted(step.rate_rps for step in mine if step.rate_rps is not None) == [50.0, 100.0]
        assert next(step for step in mine if not step.baseline).idle, "the first deployment of a round"
    first = [next(step for step in every if step.round == number).baseline for number in range(8)]
    assert set(first) == {True, False}, "baselines come first and last"


def test_phases_that_are_not_asked_for_are_left_out() -> None:
    assert [step.rate_rps for step in steps(1, (50.0,), ("run",), seed=1)] == [50.0]
    [only] = steps(1, (50.0,), ("idle",), seed=1)
    assert only.idle
    assert only.rate_rps is None
    assert steps(1, (50.0,), ("baseline",), seed=1)[0].baseline
