"""The load that a guard drives: the command line's, else the application's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from framework.config.application import load_application
from framework.errors import FileError, InputError
from framework.model import Application, RatePoint
from framework.model.guard import GuardDefaults
from framework.use_cases.guard import GuardRequest, load_shape

ROOT = Path(__file__).resolve().parents[2]
DAY = ROOT / "examples" / "day.yaml"


@pytest.fixture(scope="module")
def search() -> Application:
    return load_application(ROOT / "apps" / "search")


def points(path: Path, seconds: float, peak: float) -> tuple[RatePoint, ...]:
    return (RatePoint(0.0, peak / 2), RatePoint(seconds, peak))


def test_an_application_names_its_target_and_its_day(search: Application) -> None:
    assert search.guard == GuardDefaults("p95 <= 40ms", 300.0, DAY)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{target: 40ms}", "allowed: a quantile and a time, such as p95 <= 15ms"),
        ("{target: p95 <= 40ms, load_profile: day.yaml}", "allowed: a file; there is none at"),
        ("{target: p95 <= 40ms, peak_rps: 0}", "peak_rps"),
    ],
)
def test_defaults_that_cannot_be_used(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {web: {image: web:1}}\n")
    (tmp_path / "workload.yaml").write_text((ROOT / "apps/search/workload.yaml").read_text())
    (tmp_path / "application.yaml").write_text(
        "kind: application\nversion: 1\nname: shop\nservices: {web: {type: go}}\n"
        "workload: {file: workload.yaml, rate_rps: 10, arrivals: poisson, target: 'http://web:80'}\n"
        f"guard: {text}\n"
    )
    with pytest.raises(FileError, match=says):
        load_application(tmp_path)


def test_without_options_its_own_day_is_replayed_in_the_given_time(search: Application) -> None:
    shape = load_shape(GuardRequest("", for_s=300.0), 0.95, search, points)
    assert shape is not None
    assert (shape.peak_rps, shape.points[-1]) == (300.0, RatePoint(300.0, 300.0))


def test_without_a_length_its_own_rate_is_driven(search: Application) -> None:
    shape = load_shape(GuardRequest(""), 0.95, search, points)
    assert shape is not None
    assert (shape.rate_rps, shape.points) == (search.workload.rate_rps, ())


def test_a_given_rate_or_day_comes_before_its_own(search: Application) -> None:
    steady = load_shape(GuardRequest("", rate_rps=70.0, for_s=300.0), 0.95, search, points)
    other = load_shape(GuardRequest("", load_profile=DAY, rate_rps=80.0, for_s=60.0), 0.95, search, points)
    assert steady is not None
    assert other is not None
    assert (steady.rate_rps, steady.points) == (70.0, ())
    assert other.points[-1] == RatePoint(60.0, 80.0)


def test_where_users_are_watched_no_load_is_driven(search: Application) -> None:
    watched = GuardRequest("", project="shop", latency="metrics=http://localhost/metrics#x", for_s=60.0)
    assert load_shape(watched, 0.95, search, points) is None
    assert load_shape(replace(watched, project=""), 0.95, search, points) is None


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (GuardRequest("p95 <= 1s", project="shop"), "nothing tells the tail latency"),
        (GuardRequest("p95 <= 1s", load_profile=DAY), "in which it is replayed"),
    ],
)
def test_loads_that_cannot_be(search: Application, request_: GuardRequest, says: str) -> None:
    with pytest.raises(InputError, match=says):
        load_shape(request_, 0.95, search, points)


def test_a_load_needs_an_application() -> None:
    with pytest.raises(InputError, match="a load needs an application"):
        load_shape(GuardRequest("p95 <= 1s", rate_rps=10.0), 0.95, None, points)
