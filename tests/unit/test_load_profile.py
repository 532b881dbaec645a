"""A file with a rate over time becomes the points that the generator follows, faster where that is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.config.load_profile_file import read_load_profile
from framework.errors import FieldError, FileError
from framework.model import RatePoint, RateProfile

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_is_a_day_with_an_evening_peak() -> None:
    day = read_load_profile(ROOT / "examples" / "day.yaml", rate_rps=400)
    assert (day.length_s, day.peak_rps()) == (86_400, 400)
    peak = max(day.points, key=lambda point: point.rate_rps)
    quiet = min(day.points, key=lambda point: point.rate_rps)
    assert (peak.at_s, quiet.at_s, quiet.rate_rps) == (20.5 * 3600, 4 * 3600, 80)
    assert day.points[0].rate_rps == day.points[-1].rate_rps, "a day can follow a day"


def test_a_day_passes_in_ten_minutes() -> None:
    day = read_load_profile(ROOT / "examples" / "day.yaml", rate_rps=400, factor=144)
    assert day.length_s == 600
    assert day.points[-1] == RatePoint(600, 180)


def test_rates_stand_beside_shares(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "kind: load-profile\nversion: 1\nlength: 10m\npoints: [{at: 0s, rate: 100}, {at: 90s, rate: 0}, "
        "{at: 90s, share: 0.5}]\n"
    )
    points = (RatePoint(0, 100), RatePoint(90, 0), RatePoint(90, 10))
    assert read_load_profile(path, rate_rps=20) == RateProfile(points, 600)
    with pytest.raises(FileError, match=r"line 4: points\[2\].share: found 0.5; allowed: rate, as this run"):
        read_load_profile(path)


@pytest.mark.parametrize("factor", [0, -1, float("inf"), float("nan")])
def test_time_does_not_stop(factor: float) -> None:
    with pytest.raises(FieldError, match=r"factor: found .*; allowed: a number above 0"):
        read_load_profile(ROOT / "examples" / "day.yaml", rate_rps=1, factor=factor)


@given(st.floats(1e-3, 1e6), st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)), min_size=1, max_size=9))
def test_faster_keeps_rates_and_order(factor: float, pairs: list[tuple[float, float]]) -> None:
    points = tuple(RatePoint(*pair) for pair in sorted(pairs))
    faster = RateProfile(points, 1e5).compressed(factor)
    assert [point.rate_rps for point in faster.points] == [point.rate_rps for point in points]
    times = [point.at_s for point in faster.points]
    assert times == sorted(times)
    assert times[-1] <= faster.length_s
