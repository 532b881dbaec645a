"""Texts of a guard's options, and files of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.config.jobs_file import load_jobs
from framework.errors import FieldError, UnknownName
from framework.guard.policies.static import Static
from framework.guard.policies.tailor import Tailor
from framework.guard.policies.thesis import Thesis
from framework.guard.policy import POLICIES
from framework.guard.request import policy_of, policy_options
from framework.model.guard import target_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("text", "quantile", "milliseconds"),
    [
        ("p95 <= 15ms", 0.95, 15.0),
        ("p99<0.5s", 0.99, 500.0),
        (" p99.9 <= 800us ", 0.999, 0.8),
        ("p50 <= 1 s", 0.5, 1e3),
    ],
)
def test_targets(text: str, quantile: float, milliseconds: float) -> None:
    read_quantile, read_ms = target_of(text)
    assert read_quantile == pytest.approx(quantile)
    assert read_ms == pytest.approx(milliseconds)


@pytest.mark.parametrize(
    "text", ["", "15ms", "p95 >= 15ms", "p0 <= 15ms", "p95 <= 0ms", "p95 <= 15", "p100 <= 1ms", "p95 <= -1ms"]
)
def test_texts_that_are_no_targets(text: str) -> None:
    with pytest.raises(FieldError, match="allowed: a quantile and a time, such as p95 <= 15ms"):
        target_of(text)


def test_policies_and_their_options() -> None:
    assert policy_of("tailor") == ("tailor", Tailor())
    assert policy_of("static:3") == ("static", Static(cores=3))
    assert policy_of("tailor", {"aim": "0.7", "sharing": "idle"})[1] == Tailor(aim=0.7, sharing="idle")
    assert policy_of("thesis", {"rolls_back_when": "rose"})[1] == Thesis(rolls_back_when="rose")
    assert policy_options(Static(cores=2)) == {"cores": 2, "period_s": 10.0}
    for name in POLICIES.own():
        assert policy_of(name)[0] == name


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("static:many", {}, "allowed: a whole number, 0 or more"),
        ("tailor", {"aim": "high"}, "allowed: a number, 0 or more"),
        ("tailor", {"aim": "nan"}, "allowed: a number, 0 or more"),
        ("tailor", {"sharing": "all"}, "allowed: one of never, idle"),
        ("tailor", {"blame": "x"}, "allowed: its options aim, "),
        ("off:3", {}, "'off: cores'; allowed: its options"),
    ],
)
def test_options_that_are_refused(text: str, options: dict[str, str], says: str) -> None:
    with pytest.raises(FieldError, match=says):
        policy_of(text, options)


def test_a_policy_that_there_is_not() -> None:
    with pytest.raises(UnknownName, match="unknown policy 'best'; known: heracles"):
        policy_of("best")


def test_the_example_s_jobs() -> None:
    specs = load_jobs(ROOT / "examples" / "jobs.yaml")
    assert [spec.name for spec in specs][:3] == ["checksum-1", "checksum-2", "checksum-3"]
    assert {spec.kind for spec in specs} == {"checksum", "compress", "sort"}
    assert len({spec.name for spec in specs}) == len(specs) == 24


def written(directory: Path, text: str) -> Path:
    path = directory / "jobs.yaml"
    path.write_text(text)
    return path


def test_the_guide_s_jobs_load(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "guard.md").read_text()
    blocks = [block.split("```")[0] for block in guide.split("```yaml\n")[1:]]
    [demands] = [block for block in blocks if block.startswith("demands:")]
    image, command = (
        load_jobs(written(tmp_path, f"{block}    {demands}"))[0] for block in blocks if block.startswith("kind: jobs")
    )
    assert (image.name, image.memory_mib, image.network, image.is_command) == ("report", 1024, "none", False)
    assert (command.user, command.directory, command.network) == ("reports", "/var/lib/reports", "host")
    assert command.is_command
    assert image.demands == {"memory-bandwidth": 1.0, "l3": 0.5}
