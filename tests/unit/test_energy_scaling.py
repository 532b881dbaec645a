"""Projection of cycles per I/O to many cores: laws that are known are found, and too little is refused."""

from __future__ import annotations

import numpy as np
import pytest

from framework.energy.scaling import projections
from framework.errors import InputError

CORES = (1, 2, 4, 8, 12, 16)


def test_a_line_is_found_and_its_interval_holds_the_truth() -> None:
    """System cycles per I/O that double within 12 cores, with 2 % noise: 90 times one core's on about 1,024."""
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        points = [(n, 1000 * (1 + 0.087 * (n - 1)) * (1 + 0.02 * rng.standard_normal())) for n in CORES]
        [linear, _] = projections(points)
        truth = 1000 * (1 + 0.087 * 1023)
        covered += linear.low <= truth <= linear.high
        assert linear.beyond == 64
    assert covered >= 180
    assert linear.times == pytest.approx(90, rel=0.2)


def test_a_law_with_coherence_is_found_by_the_usl_alone() -> None:
    points = [(n, 1000 * (1 + 0.05 * (n - 1) + 0.001 * n * (n - 1))) for n in CORES]
    [linear, usl] = projections(points, 256)
    truth = 1000 * (1 + 0.05 * 255 + 0.001 * 256 * 255)
    assert usl.cycles == pytest.approx(truth, rel=1e-6)
    assert linear.high < truth


@pytest.mark.parametrize("cores", [(), (1,), (1, 2, 4), (1, 1, 2, 2, 4, 4)])
def test_fewer_than_four_numbers_of_cores_are_refused(cores: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="at least 4 numbers of cores"):
        projections([(n, 100.0) for n in cores])


@pytest.mark.parametrize("cycles", [0.0, -1.0, float("nan"), float("inf")])
def test_cycles_that_cannot_be_are_refused(cycles: float) -> None:
    with pytest.raises(InputError, match="above 0"):
        projections([(1, 10.0), (2, 10.0), (4, cycles), (8, 10.0)])


def test_a_law_without_a_degree_of_freedom_is_left_out() -> None:
    assert [p.law for p in projections([(1, 10.0), (2, 11.0), (4, 13.0), (8, 17.0)])] == ["linear", "USL"]
    [linear, usl] = projections([(1, 10.0), (2, 11.0), (4, 13.0), (8, 17.0)])
    assert linear.cycles == pytest.approx(10 + 1023)
    assert usl.cycles == pytest.approx(10 + 1023, rel=1e-3)
