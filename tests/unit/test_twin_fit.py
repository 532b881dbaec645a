"""A twin that is wrong by known factors is fitted to what a right one answers."""

from __future__ import annotations

import pytest

from framework.config import search_space
from framework.twin.fit import Point, adjusted, answer, errors, fitted
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
