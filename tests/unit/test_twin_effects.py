"""The effect of parameters on CPU time, learnt from counters that were made by a known law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from framework.config.space import search_space
from framework.twin.calibration.effects import learnt_effects
from framework.twin.calibration.fit import Point, adjusted, answer
from framework.twin.translate import compiled, inert
from optimizer.sampling import latin_hypercube
from tests.unit.test_twin_testbed import SLICE, TWIN, TYPES

SPACE = search_space(SLICE, TYPES, cores=4, memory_mib=16_384)
COST_US = {"nginx": 400.0, "url-shorten": 300.0, "url-shorten-memcached": 90.0, "url-shorten-db": 60.0}


def counted(count: int, noise: float) -> list[Point]:
    """A server's CPU goes with the square root of its threads; the machine is up to a tenth faster or slower."""
    rng = np.random.default_rng(5)
    points = []
    for number, configuration in enumerate([SPACE.default(), *latin_hypercube(SPACE, count, rng)]):
        speed = np.exp(rng.normal(0.0, 0.1))
        cpu = {name: us * speed * np.exp(rng.normal(0.0, noise)) for name, us in COST_US.items()}
        threads = configuration["url-shorten.gomaxprocs"]
        assert isinstance(threads, int)
        cpu["url-shorten"] *= (threads / 2) ** 0.5
        points.append(Point(configuration, 100.0 * (1 + number % 2), 3.0, 9.0, cpu_us=cpu))
    return points


def test_the_law_is_found_and_no_other() -> None:
    points = counted(60, 0.02)
    effects, slower = learnt_effects(SLICE, TYPES, points)
    assert effects["go-service"]["gomaxprocs"] == pytest.approx(0.5, abs=0.03)
    others = [
        abs(exponent) for kind, ones in effects.items() for name, exponent in ones.items() if name != "gomaxprocs"
    ]
    assert max(others, default=0.0) < 0.05
    measured = np.array([point.cpu_us["nginx"] for point in points])
    slowness = np.array([point.slowness or 0.0 for point in slower])
    assert np.corrcoef(measured, slowness)[0, 1] > 0.95


def test_nothing_is_learnt_from_little() -> None:
    assert learnt_effects(SLICE, TYPES, []) == ({}, [])
    assert learnt_effects(SLICE, TYPES, counted(2, 0.02))[0] == {}
    nothing = [replace(point, cpu_us={}) for point in counted(30, 0.02)]
    assert learnt_effects(SLICE, TYPES, nothing) == ({}, nothing)


def test_an_effect_scales_computing_and_the_background() -> None:
    default = SPACE.default()
    twin = replace(TWIN, effects={"go-service": {"gomaxprocs": 1.0}})
    scale = [
        dict(zip(((op.service, op.operation) for op in operations), program.scale.tolist(), strict=True))
        for program, operations in (
            compiled(twin, SLICE, TYPES, {**default, "url-shorten.gomaxprocs": threads}) for threads in (2, 1)
        )
    ]
    assert scale[0]["url-shorten", "get"] == 1.0
    assert scale[1]["url-shorten", "get"] == pytest.approx(0.5)
    assert scale[1]["nginx", "read"] == 1.0
    assert "url-shorten-db.work_mem_kib" in inert(twin, SLICE, TYPES)
    known = replace(twin, effects={"postgresql": {"work_mem_kib": 0.1}})
    assert "url-shorten-db.work_mem_kib" not in inert(known, SLICE, TYPES)


def test_shared_cores_take_longer() -> None:
    default = SPACE.default()
    alone = replace(TWIN, hosts=(replace(TWIN.hosts[0], sharing=0.2),))
    p50, _, cores = answer(alone, SLICE, TYPES, default, 400.0)
    slower, _, more = answer(adjusted(alone, sharing=1.5), SLICE, TYPES, default, 400.0)
    assert slower > p50
    assert more > cores
