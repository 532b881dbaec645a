"""Tailor as a user runs it, on the slice application: a whole study, its files, and what goes wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from framework.testbeds.docker.compose_command import ComposeCommand
from tests.docker.studies import PATIENT, ROOT, WIDE, left_behind, tailor, trials_of, tune

pytestmark = [pytest.mark.docker, PATIENT]


def test_a_study_from_the_first_trial_to_the_files(home: Path, slice_application: Path, tmp_path: Path) -> None:
    document: dict[str, Any] = json.loads(tune(home, slice_application, "--optimizer", "dds", "--json").stdout)
    assert document["state"] == "completed"
    assert document["default"]["value"] > 0
    assert document["best"]["value"] > 0
    assert Path(document["report"]).read_text().count("<svg") >= 3
    assert left_behind(document["study"]) == []

    trials = trials_of(home, document["study"])
    purposes = [t["purpose"] for t in trials]
    assert purposes[0] == "default"
    assert purposes.count("search") == 2
    for trial in trials:
        assert trial["state"] == "completed", trial["reason"]
        [measurement] = trial["measurements"]
        assert measurement["spans_created"] == measurement["spans_read"] > 0
        assert measurement["requests"] > 400
        assert {"render", "start", "prepare", "load", "read", "evaluate"} <= measurement["phases"].keys()
        assert measurement["statistics"]["url-shorten-memcached"]["hits"] > 0
        assert {"url-shorten", "url-shorten-db", "nginx"} <= {s["service"] for s in measurement["services"]}
        assert all("@sha256:" in image for image in trial["images"].values())

    tailor(home, "best", document["study"], "--output", str(tmp_path / "best"))
    names = {path.name for path in (tmp_path / "best").iterdir()}
    assert {"compose.yaml", "configuration.yaml", "changes.diff"} <= names
    checked = subprocess.run(
        [*ComposeCommand.find().argv, "-f", "compose.yaml", "config", "-q"],
        cwd=tmp_path / "best",
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stderr
    tailor(home, "best", document["study"], "--output", str(tmp_path / "best"), code=2)  # not empty any more


def test_every_repetition_starts_from_equal_state(home: Path, slice_application: Path) -> None:
    document = json.loads(tune(home, slice_application, "--repetitions", "2", "--json").stdout)
    trials = trials_of(home, document["study"])
    default = [t for t in trials if t["label"] == "default"]
    items = {m["statistics"]["url-shorten-memcached"]["evictions"] for t in default for m in t["measurements"]}
    assert items == {0.0}  # 2,000 small values fit: nothing is carried over from earlier repetitions


def test_incremental_keeps_what_did_not_change_and_says_so(home: Path, slice_application: Path) -> None:
    document = json.loads(tune(home, slice_application, "--incremental", "--only", "url-shorten", "--json").stdout)
    assert document["state"] == "completed"
    assert "Incremental" in Path(document["report"]).read_text()
    assert left_behind(document["study"]) == []


def test_services_run_on_the_cpus_that_a_placement_names(home: Path, slice_application: Path) -> None:
    said = tune(home, slice_application, "--placement", "only", "--optimizer", "random", "--domains", "2", "--json")
    document = json.loads(said.stdout)
    trials = trials_of(home, document["study"])
    searched = [trial for trial in trials if trial["purpose"] == "search"]
    for trial in trials:  # the kernel says that they run where they should
        assert trial["state"] == "completed", trial["reason"]
    assert {name.rpartition(".")[2] for trial in searched for name in trial["configuration"]} == {"cpuset"}
    assert {cpus for trial in searched for cpus in trial["configuration"].values()} - {"all"}


def test_a_server_type_that_no_code_mentions_works_from_its_file_alone(home: Path, tmp_path: Path) -> None:
    application = tmp_path / "haproxy"
    shutil.copytree(ROOT / "tests" / "cases" / "good" / "haproxy", application)
    with (application / "application.yaml").open("a") as file:
        file.write(f"limits: {json.dumps(WIDE)}\n")
    said = tune(
        home, application, "--only", "front", "--optimizer", "random", "--rate", "200", "--json",
        TAILOR_SEARCH_SPACES=str(application / "search_spaces"),
    )  # fmt: skip
    document = json.loads(said.stdout)
    assert document["state"] == "completed"
    trials = trials_of(home, document["study"], TAILOR_SEARCH_SPACES=str(application / "search_spaces"))
    assert document["trials"] == {"completed": len(trials)}
    assert set(trials[0]["configuration"]) == {"front.threads", "front.http_reuse", "front.buffer_bytes"}
    assert trials[0]["measurements"][0]["statistics"]["front"]["requests"] > 0


def test_each_deployment_is_measured_at_several_rates(home: Path, slice_application: Path) -> None:
    said = tune(
        home, slice_application, "--rates", "100,200", "--iterations", "1", "--pairs", "0", "--optimizer", "random",
        "--only", "url-shorten", "--json",
    )  # fmt: skip
    document = json.loads(said.stdout)
    assert document["state"] == "completed"
    assert document["unit"] == "times the default"
    trials = trials_of(home, document["study"])  # the default more than once where something disturbed the machine
    default, searched = (
        next(t for t in trials if t["purpose"] == purpose and t["state"] == "completed")
        for purpose in ("default", "search")
    )
    assert default["value"] == 1.0
    for trial in (default, searched):
        first, second = (measurement for measurement in trial["measurements"] if not measurement["invalid"])
        assert {first["rate_rps"], second["rate_rps"]} == {100.0, 200.0}
        for measurement in (first, second):  # spans of the other window are neither counted nor read
            assert measurement["spans_created"] == measurement["spans_read"] > 0
            assert abs(measurement["requests"] - 3 * measurement["rate_rps"]) < 6 * (3 * measurement["rate_rps"]) ** 0.5
        assert "start" in first["phases"]
        assert "start" not in second["phases"]
    assert default["measurements"][0]["rate_rps"] == searched["measurements"][0]["rate_rps"], "the order is equal"
    assert left_behind(document["study"]) == []
