"""Tailor as a user runs it, on the slice application: a whole study, its files, and what goes wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.docker

ROOT = Path(__file__).resolve().parents[2]
TAILOR = [sys.executable, "-c", "from framework.cli.main import main; main()"]

# A machine that runs tests is not quiet: these tests are about the order of things, not about the numbers, so
# the application's limits on disturbance are wide.
WIDE = {
    "generator_lag": 100.0,
    "stolen_cpu": 0.99,
    "p95_disagreement": 10.0,
    "stationarity_change": 1000.0,
    "achieved_rate": 0.5,
    "errors": 0.5,
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    subprocess.run([*TAILOR, "clean"], env=environment(tmp_path / "home"), cwd=ROOT, check=True, capture_output=True)


@pytest.fixture
def slice_application(tmp_path: Path) -> Path:
    """A copy of the slice with wide limits and little data."""
    target = tmp_path / "url-shortener"
    shutil.copytree(ROOT / "apps" / "url-shortener", target)
    text = (target / "application.yaml").read_text()
    assert "limits:" not in text
    (target / "application.yaml").write_text(text + f"limits: {json.dumps(WIDE)}\n")
    for file in ("compose.yaml", "workload.yaml"):
        edit(target, file, "400000", "2000")
    return target


def environment(home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "TAILOR_HOME": str(home), "PYTHONPATH": str(ROOT), **more}


def tailor(home: Path, *arguments: str, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
    command = [*TAILOR, *arguments]
    done = subprocess.run(command, env=environment(home, **more), cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def tune(
    home: Path, application: Path, *arguments: str, code: int = 0, **more: str
) -> subprocess.CompletedProcess[str]:
    short = ("--iterations", "2", "--repetitions", "1", "--duration", "3s", "--warm-up", "1s", "--pairs", "2")
    return tailor(home, "tune", str(application), *short, "--drift-every", "0", *arguments, code=code, **more)


def left_behind(study: str = "") -> list[str]:
    """Containers, networks and volumes of a study (or of any), apart from kept data."""
    label = f"label=tailor.study={study}" if study else "label=tailor.study"
    found: list[str] = []
    for what in (["ps", "-aq"], ["network", "ls", "-q"], ["volume", "ls", "-q"]):
        listed = subprocess.run(["docker", *what, "--filter", label], capture_output=True, text=True, check=True)
        found += listed.stdout.split()
    return found


def test_a_study_from_the_first_trial_to_the_files(home: Path, slice_application: Path, tmp_path: Path) -> None:
    document: dict[str, Any] = json.loads(tune(home, slice_application, "--optimizer", "dds", "--json").stdout)
    assert document["state"] == "completed"
    assert document["default"]["value"] > 0
    assert document["best"]["value"] > 0
    assert Path(document["report"]).read_text().count("<svg") >= 3
    assert left_behind(document["study"]) == []

    shown = json.loads(tailor(home, "show", document["study"], "--json").stdout)
    trials = shown["trials_detail"]
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
        ["docker", "compose", "-f", "compose.yaml", "config", "-q"],
        cwd=tmp_path / "best",
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stderr
    tailor(home, "best", document["study"], "--output", str(tmp_path / "best"), code=2)  # not empty any more


def test_every_repetition_starts_from_equal_state(home: Path, slice_application: Path) -> None:
    document = json.loads(tune(home, slice_application, "--repetitions", "2", "--json").stdout)
    trials = json.loads(tailor(home, "show", document["study"], "--json").stdout)["trials_detail"]
    default = [t for t in trials if t["label"] == "default"]
    items = {m["statistics"]["url-shorten-memcached"]["evictions"] for t in default for m in t["measurements"]}
    assert items == {0.0}  # 2,000 small values fit: nothing is carried over from earlier repetitions


def test_kill_9_loses_no_finished_trial_and_leaves_nothing(home: Path, slice_application: Path) -> None:
    command = [*TAILOR, "tune", str(slice_application), "--iterations", "3", "--repetitions", "1", "--duration", "3s"]
    command += ["--warm-up", "1s", "--pairs", "2", "--drift-every", "0"]
    running = subprocess.Popen(command, env=environment(home), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("trial 2"):
            break
    running.send_signal(signal.SIGKILL)
    running.communicate()
    [listed] = json.loads(tailor(home, "studies", "--json").stdout)
    study = listed["study"]
    before = finished(home, study)
    assert len(before) >= 2
    tailor(home, "clean")
    assert left_behind(study) == []
    resumed = json.loads(tailor(home, "resume", study, "--json").stdout)
    assert resumed["state"] == "completed"
    after = finished(home, study)
    assert after[: len(before)] == before
    assert left_behind(study) == []


def finished(home: Path, study: str) -> list[tuple[int, float]]:
    trials = json.loads(tailor(home, "show", study, "--json").stdout)["trials_detail"]
    return [(t["number"], t["value"]) for t in trials if t["state"] == "completed"]


def test_ctrl_c_pauses_and_cleans_up(home: Path, slice_application: Path) -> None:
    command = [*TAILOR, "tune", str(slice_application), "--iterations", "9", "--repetitions", "1", "--duration", "3s"]
    running = subprocess.Popen(
        command,
        env=environment(home),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background ignores Ctrl-C, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("trial 1"):
            break
    running.send_signal(signal.SIGINT)
    _, rest = running.communicate()
    assert running.returncode == 130, rest
    assert "tailor resume" in rest
    [listed] = json.loads(tailor(home, "studies", "--json").stdout)
    assert listed["state"] == "paused"
    assert left_behind(listed["study"]) == []


def edit(application: Path, file: str, old: str, new: str) -> None:
    path = application / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_an_image_that_does_not_exist_is_named_before_anything_starts(home: Path, slice_application: Path) -> None:
    edit(slice_application, "compose.yaml", "image: memcached:1.6", "image: tailor/nothing:9")
    said = tune(home, slice_application, code=3).stderr
    assert "tailor/nothing:9" in said
    assert "make images" in said


def test_a_service_that_will_not_start_is_named_with_its_last_words(home: Path, slice_application: Path) -> None:
    edit(slice_application, "compose.yaml", "command: [memcached]", "command: [memcached, --nonsense]")
    said = tune(home, slice_application, code=4).stderr
    assert "url-shorten-memcached" in said
    assert "|" in said  # its log
    [listed] = json.loads(tailor(home, "studies", "--json").stdout)
    assert listed["state"] == "failed"
    assert left_behind(listed["study"]) == []


def test_jaeger_that_does_not_answer_fails_the_trial_with_the_reason(home: Path, slice_application: Path) -> None:
    edit(slice_application, "application.yaml", "port: 16686", "port: 16999")
    said = tune(home, slice_application, code=4).stderr
    assert "16999" in said


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path, slice_application: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    said = tune(blocked / "home", slice_application, code=2).stderr
    assert str(blocked) in said


def test_incremental_keeps_what_did_not_change_and_says_so(home: Path, slice_application: Path) -> None:
    document = json.loads(tune(home, slice_application, "--incremental", "--only", "url-shorten", "--json").stdout)
    assert document["state"] == "completed"
    assert "Incremental" in Path(document["report"]).read_text()
    assert left_behind(document["study"]) == []


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
    assert document["trials"] == {"completed": sum(document["trials"].values())}
    shown = tailor(home, "show", document["study"], "--json", TAILOR_SEARCH_SPACES=str(application / "search_spaces"))
    trials = json.loads(shown.stdout)["trials_detail"]
    assert set(trials[0]["configuration"]) == {"front.threads", "front.http_reuse", "front.buffer_bytes"}
    assert trials[0]["measurements"][0]["statistics"]["front"]["requests"] > 0
