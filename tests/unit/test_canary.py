"""The canary: its duty in virtual time, what it calls quiet, its child process, its walk."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.model.guard import READINGS
from framework.model.topology import Cache, Cpu, Topology
from framework.testbeds.host.canary import (
    CALIBRATION_S,
    DUTY,
    PRIVATE_TIMES,
    SIZE_BYTES,
    STALE_S,
    Canary,
    Slowdown,
    walk_bytes,
)
from framework.testbeds.host.chase import CHUNK, LINE, Clocks, bursts, cycle, walker

MIB = 2**20
WAIT_S = 120.0  # for a child process; only a broken one takes that long


# ------------------------------------------------------------------ duty


@given(
    steps_ns=st.lists(st.floats(5.0, 500.0), min_size=40, max_size=80),
    stolen=st.floats(0.0, 20.0),
    period_s=st.floats(0.1, 1.0),
)
def test_the_walk_takes_its_share_of_a_cpu_however_slow_memory_is(
    steps_ns: list[float], stolen: float, period_s: float
) -> None:
    """``stolen``: seconds for which others have the CPU, for each second that the walk has it."""
    time_s, cpu_s, pauses = [0.0], [0.0], [0]

    def chase(steps: int) -> None:
        spent_s = steps * steps_ns[pauses[0]] * 1e-9
        cpu_s[0] += spent_s
        time_s[0] += spent_s * (1.0 + stolen)

    def pause(seconds: float) -> bool:
        time_s[0] += seconds
        pauses[0] += 1
        return pauses[0] == len(steps_ns)

    told = list(bursts(chase, Clocks(lambda: cpu_s[0], lambda: time_s[0], pause), DUTY, period_s))
    assert [burst.step_ns for burst in told] == pytest.approx(steps_ns)
    assert cpu_s[0] / time_s[0] == pytest.approx(DUTY, rel=1e-6)
    assert told[-1].cpu_s == pytest.approx(cpu_s[0])
    longest_s = period_s + CHUNK * max(steps_ns) * 1e-9 / DUTY
    assert time_s[0] <= len(steps_ns) * longest_s * (1 + 1e-9)


def test_a_burst_is_one_chunk_more_than_its_share_at_most() -> None:
    cpu_s = [0.0]

    def chase(steps: int) -> None:
        cpu_s[0] += steps * 203e-9

    [burst] = bursts(chase, Clocks(lambda: cpu_s[0], lambda: 0.0, lambda seconds: True), DUTY, 0.25)
    assert burst.step_ns == pytest.approx(203.0)
    assert burst.cpu_s == cpu_s[0]
    assert DUTY * 0.25 <= cpu_s[0] < DUTY * 0.25 + CHUNK * 203e-9 + 1e-12


# ------------------------------------------------------------------ the walk


@given(lines=st.integers(1, 300), seed=st.integers(0, 5))
def test_the_walk_visits_every_line_before_one_comes_again(lines: int, seed: int) -> None:
    following = cycle(lines, seed)
    assert following.nbytes == lines * LINE
    at, visited = 0, set[int]()
    for _ in range(lines):
        visited.add(at)
        at = int(following[at])
    assert at == 0
    assert visited == set(range(0, lines * LINE // 8, LINE // 8))


def test_the_walk_jumps() -> None:
    steps = np.diff(cycle(4096)[:: LINE // 8])
    assert np.median(np.abs(steps)) > 4096  # a prefetcher finds no stride in it


def test_the_compiled_walk_goes_on_where_it_was() -> None:
    chase = walker(1000)
    chase(1)
    chase(999)
    chase(12345)


# ------------------------------------------------------------------ what is quiet


def readings(steps_ns: Callable[[float], float], seconds: int) -> list[float | None]:
    slowdown = Slowdown()
    return [slowdown.add(tick / 4, steps_ns(tick / 4)) for tick in range(seconds * 4)]


def test_the_first_moments_are_calibration() -> None:
    told = readings(lambda now_s: 22.0 if now_s < 10 else 203.0, 12)
    calibration = int(CALIBRATION_S * 4)
    assert told[:calibration] == [None] * calibration
    assert told[calibration] == 1.0
    assert told[-1] == pytest.approx(203 / 22, rel=0.01)


def test_a_faster_step_is_the_new_measure() -> None:
    told = readings(lambda now_s: 203.0 if now_s < 5 else 22.0 if now_s < 6 else 203.0, 8)
    assert told[16] == 1.0
    assert told[-1] == pytest.approx(203 / 22, rel=0.01)


def test_what_was_quiet_is_forgotten_slowly() -> None:
    told = readings(lambda now_s: 22.0 if now_s < 10 else 203.0, 6 * 3600)
    assert told[4 * 600] == pytest.approx(203 / 22, rel=0.11)  # ten minutes later it is nearly the same
    assert told[-1] == 1.0  # and after hours it is how the machine is


@given(steps=st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=100))
def test_nothing_is_faster_than_quiet(steps: list[float]) -> None:
    slowdown = Slowdown()
    for tick, step_ns in enumerate(steps):
        told = slowdown.add(tick / 4, step_ns)
        assert told is None or told >= 1.0


# ------------------------------------------------------------------ its size


def machine(private: int, shared: int) -> Topology:
    """Two cores with a cache of their own each, and a shared one [MiB]; 0: not there."""
    caches = [Cache(2, "", private * MIB, (number,)) for number in range(2) if private]
    caches += [Cache(1, "i", 32 * 1024, (0,))]
    caches += [Cache(3, "", shared * MIB, (0, 1))] if shared else []
    return Topology((Cpu(0, 0, 0, 0), Cpu(1, 1, 0, 0)), tuple(caches))


@pytest.mark.parametrize(
    ("topology", "size"),
    [
        (None, SIZE_BYTES),
        (machine(0, 0), SIZE_BYTES),
        (machine(2, 300), SIZE_BYTES),
        (machine(1, 22), 11 * MIB),
        (machine(2, 4), PRIVATE_TIMES * 2 * MIB),  # to leave the private cache comes first
        (machine(16, 64), PRIVATE_TIMES * 16 * MIB),
        (machine(2, 0), SIZE_BYTES),
    ],
)
def test_the_walk_is_larger_than_the_private_caches(topology: Topology | None, size: int) -> None:
    assert walk_bytes(topology) == size


# ------------------------------------------------------------------ the child


def told_by(canary: Canary, now_s: float) -> float:
    """Read until there is a reading."""
    limit_s = time.monotonic() + WAIT_S
    while time.monotonic() < limit_s:
        told = canary.read(now_s)
        if told:
            return told["canary"]
        time.sleep(0.01)
    pytest.fail(f"no reading: {canary.missing()}")


CHILD = """
import sys
for text in {texts!r}:
    sys.stdout.write(text)
    sys.stdout.flush()
    if sys.stdin.read(1) == "":
        sys.exit(0)
"""


def child(*texts: str) -> list[str]:
    """A process that writes the first text, and waits until its input ends."""
    return [sys.executable, "-c", CHILD.format(texts=texts)]


def test_the_sensor_reads_what_its_child_tells_and_leaves_out_what_is_old() -> None:
    canary = Canary(command=child("22.0 0.1\nnonsense\n0 0\ninf 1\n44.0 0.2\n66"))
    assert canary.gives == ("canary",)
    assert set(canary.gives) <= set(READINGS)
    assert canary.missing() == ""
    limit_s = time.monotonic() + WAIT_S
    while canary.cpu_s < 0.2 and time.monotonic() < limit_s:
        assert canary.read(0.0) == {}  # calibration
        time.sleep(0.01)
    assert canary.cpu_s == 0.2
    canary.close()
    assert canary.missing() == "the canary is closed"
    assert canary.read(0.0) == {}


def test_a_reading_gets_old() -> None:
    canary = Canary(
        command=[sys.executable, "-c", "import time\nwhile 1: print('22.0 0.1', flush=True); time.sleep(0.01)"]
    )
    canary.read(0.0)
    time.sleep(0.01)
    limit_s = time.monotonic() + WAIT_S
    while canary.cpu_s == 0.0 and time.monotonic() < limit_s:
        canary.read(0.0)
        time.sleep(0.01)
    assert told_by(canary, CALIBRATION_S) == pytest.approx(1.0, rel=0.01)
    canary.close()  # it does not look at its input, and is killed
    assert canary.read(CALIBRATION_S + STALE_S)["canary"] == pytest.approx(1.0, rel=0.01)
    assert canary.read(CALIBRATION_S + STALE_S + 0.1) == {}


def test_a_child_that_cannot_be_started_or_ends_is_missing() -> None:
    canary = Canary(command=["/nowhere/at-all"])
    assert canary.read(0.0) == {}
    assert "cannot be started" in canary.missing()
    canary.close()
    ended = Canary(command=[sys.executable, "-c", "raise SystemExit(3)"])
    limit_s = time.monotonic() + WAIT_S
    while not ended.missing() and time.monotonic() < limit_s:
        assert ended.read(0.0) == {}
        time.sleep(0.01)
    assert ended.missing() == "the canary's process ended with status 3"
    ended.close()


def test_the_real_child_walks() -> None:
    canary = Canary(size_bytes=2**20)
    limit_s = time.monotonic() + WAIT_S
    while canary.cpu_s == 0.0 and time.monotonic() < limit_s:
        assert canary.read(0.0) == {}
        time.sleep(0.01)
    assert canary.cpu_s > 0.0
    assert told_by(canary, CALIBRATION_S) >= 1.0
    canary.close()


def test_the_child_ends_when_its_input_does() -> None:
    command = [sys.executable, "-m", "framework.testbeds.host.chase", str(2**20)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S, check=True)
    step_ns, cpu_s = map(float, done.stdout.split())  # one burst; the pause after it sees the end
    assert step_ns > 0
    assert cpu_s > 0
