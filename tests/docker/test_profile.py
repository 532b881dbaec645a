"""The profiler on the slice: services move to other CPUs while they run, with a real stressor beside them."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from framework.placement.profile import read_profile
from framework.testbeds.docker.stressors import IMAGE
from tests.docker.profiles import write_profile
from tests.docker.studies import PATIENT, ROOT, TAILOR, WIDE, Disturbed, environment, left_behind, tailor

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900), PATIENT]


@pytest.mark.alone
def test_a_service_beside_a_stressor(home: Path, slice_application: Path, tmp_path: Path) -> None:
    before = left_behind()  # the engine may hold a network of another test
    path = tmp_path / "profile.jsonl"
    limits = [f"--limits={name}={value}" for name, value in WIDE.items()]
    asked = (
        "profile", str(slice_application), "--service", "url-shorten", "--stressor", "l2", "--blocks", "1",
        "--duration", "2s", "--rate", "150", "--output", str(path), *limits, "--json",
    )  # fmt: skip
    document = json.loads(tailor(home, *asked).stdout)
    assert {slowdown["stressor"] for slowdown in document["slowdowns"]} == {"l2"}
    assert document["about"]["peaks"]["url-shorten"] > 0
    if document["invalid"]:
        raise Disturbed(document)
    profile = read_profile(path.read_text(), "profile")
    assert all(probe.per_second > 0 for probe in profile.probes)
    assert set(profile.about.memory_mib) == set(profile.about.peaks)
    assert all(1 < mib < 2_000 for mib in profile.about.memory_mib.values()), "MiB"
    stressed = [window for window in profile.windows if window.stressor]
    assert all(window.spans > 50 and window.stress_per_s > 0 and window.cores > 0 for window in stressed)
    assert all(window.switches_per_s > 0 for window in profile.windows), "the kernel's own counts"
    assert set(left_behind()) <= set(before)
    again = json.loads(tailor(home, *asked).stdout)
    assert again["windows"] == document["windows"], "it was whole"
    shown = tailor(home, *asked[:-1]).stdout
    assert "slower in every block beside" in " ".join(shown.split())
    assert "url-shorten" in shown


@pytest.mark.alone
def test_nothing_stays_of_a_profile_that_was_killed(home: Path, slice_application: Path, tmp_path: Path) -> None:
    """Killed with a stressor running: cleaning removes it and the application, but not while the profile is made."""
    before = set(_containers("tailor.application"))
    strangers = _left(tmp_path)
    asked = ("profile", str(slice_application), "--service", "url-shorten", "--stressor", "l2", "--duration", "30s")
    started = subprocess.Popen(
        [*TAILOR, *asked, "--output", str(tmp_path / "p.jsonl")], env=environment(home), cwd=ROOT
    )
    try:
        while not (stressors := set(_containers("tailor.role=stressor")) - before):
            assert started.poll() is None
            time.sleep(0.5)
        assert json.loads(tailor(home, "clean", "--json").stdout)["removed"] == []
        assert "is being run by another process" in tailor(
            home, *asked, "--output", str(tmp_path / "p.jsonl"), code=2
        ).stderr  # fmt: skip
    finally:
        started.kill()
        started.wait()
    assert stressors <= set(_containers("tailor.role=stressor"))
    (project,) = _left(tmp_path) - strangers
    assert stressors <= set(_containers("tailor.role=stressor"))
    assert json.loads(tailor(home, "clean", "--json").stdout)["removed"]
    assert set(_containers("tailor.application")) <= before, "networks are left out: engines before 28 keep empty ones"
    assert "is not a project of another" in tailor(home, "clean", "--project", project, code=2).stderr


def test_what_another_home_left_is_removed_where_it_is_named(home: Path, project: str) -> None:
    """The load generator or a stressor alone, stopped, as a restart of the engine leaves them: by its label."""
    made = ("docker", "create", "--network", "none", "--label", f"tailor.project={project}", IMAGE)
    subprocess.run(made, check=True, capture_output=True)
    document = json.loads(tailor(home, "clean", "--json").stdout)
    assert project in document["left"]
    assert project in tailor(home, "clean").stdout
    document = json.loads(tailor(home, "clean", "--project", project, "--json").stdout)
    assert len(document["removed"]) == 1
    assert project not in document["left"]


def _left(tmp_path: Path) -> set[str]:
    """Return the names that another TAILOR_HOME leaves alone."""
    return set(json.loads(tailor(tmp_path / "elsewhere", "clean", "--json").stdout)["left"])


def _containers(label: str) -> list[str]:
    listed = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label={label}"], capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


def test_a_placement_is_proposed_and_measured(home: Path, slice_application: Path, tmp_path: Path) -> None:
    """From a profile written by hand: two services that harm each other go apart, if that is worth anything or not."""
    names = {"nginx": 0.3, "url-shorten": 0.5, "url-shorten-db": 0.2}
    path = write_profile(tmp_path / "profile.jsonl", names, {})
    said = tailor(
        home, "place", str(slice_application), "--profile", str(path), "--pairs", "2", "--duration", "2s", "--rate",
        "150",
    ).stdout  # fmt: skip
    assert "kept apart from" in said
    assert "Predicted, for the order of placements" in said
    assert "no placement is recommended" in said, "two pairs show nothing"
    study = json.loads(tailor(home, "studies", "--json").stdout)[0]["study"]
    shown = json.loads(tailor(home, "show", study, "--json").stdout)
    arms = {trial["label"] for trial in shown["trials_detail"] if trial["purpose"] == "verdict"}
    assert {"default", "best", "spread"} <= arms | {"best"}
    [searched] = [trial for trial in shown["trials_detail"] if trial["purpose"] == "search"]
    assert set(searched["configuration"]) == {f"{name}.cpuset" for name in names}
    assert set(searched["configuration"].values()) == {"0", "1"}
    assert left_behind(study) == []
