"""A twin that is wrong by known factors is fitted to what a right one answers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from framework.config.space import search_space
from framework.twin.calibration.fit import Point, adjusted, answer, errors, fitted
from framework.twin.visits import expected_visits
from tests.unit.test_twin_testbed import SLICE, TWIN, TYPES

DEFAULT = search_space(SLICE, TYPES, cores=2, memory_mib=16_384).default()


def test_visits_follow_the_calls() -> None:
    visits = expected_visits(TWIN)
    assert visits["url-shorten", "get"] == pytest.approx(0.9)
    assert visits["url-shorten-memcached", "get"] == pytest.approx(0.9)
    assert visits["url-shorten-db", "select"] == pytest.approx(0.27)
    assert visits["url-shorten-db", "insert"] == pytest.approx(0.1)


def test_nothing_moves_with_zeros() -> None:
    before = answer(TWIN, SLICE, TYPES, DEFAULT, 200.0)
    assert answer(adjusted(TWIN), SLICE, TYPES, DEFAULT, 200.0) == pytest.approx(before)


@pytest.mark.slow
def test_what_was_wrong_is_found() -> None:
    wrong = adjusted(TWIN, waiting=0.6, computing=-0.4, setup=0.8)
    points = []
    for rate in (100.0, 400.0):
        for changes in ({}, {"nginx.upstream_keepalive": 64}):
            configuration = {**DEFAULT, **changes}
            p50, p95, cores = answer(TWIN, SLICE, TYPES, configuration, rate, seed=9)
            points.append(Point(configuration, rate, p50, p95, cores=cores))
    before = errors(wrong, SLICE, TYPES, points)
    after = errors(fitted(wrong, SLICE, TYPES, points, steps=60), SLICE, TYPES, points)
    assert max(after) < 0.1 < max(before)


def test_on_a_slow_machine_everything_takes_longer() -> None:
    usual = answer(TWIN, SLICE, TYPES, DEFAULT, 20.0)
    slow = answer(TWIN, SLICE, TYPES, DEFAULT, 20.0, slowness=2.0)
    assert slow[0] / usual[0] == pytest.approx(2.0, rel=0.05), "nothing queues at this rate, so that all of it doubles"
    assert slow[1] / usual[1] == pytest.approx(2.0, rel=0.1)


@pytest.mark.slow
def test_a_twin_that_cannot_answer_at_all_is_fitted() -> None:
    """Its cores slow each other down until nothing is answered at the highest rate."""
    right = replace(TWIN, hosts=(replace(TWIN.hosts[0], switching=0.0, sharing=0.0),))
    points = []
    for rate in (100.0, 2_400.0):
        p50, p95, cores = answer(right, SLICE, TYPES, DEFAULT, rate, seed=9)
        points.append(Point(DEFAULT, rate, p50, p95, cores=cores))
    wrong = replace(TWIN, hosts=(replace(TWIN.hosts[0], switching=1.0, sharing=1.0),))
    assert math.isinf(answer(wrong, SLICE, TYPES, DEFAULT, 2_400.0)[0])
    twin = fitted(wrong, SLICE, TYPES, points, steps=60)
    assert max(errors(twin, SLICE, TYPES, points)) < 0.25
