"""Faults in a study, as its user sees them: a clear error, a recorded trial, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.docker.studies import (
    DISTURBED,
    PATIENT,
    ROOT,
    SHORT,
    TAILOR,
    Disturbed,
    edit,
    environment,
    finished,
    left_behind,
    tailor,
    trials_of,
    tune,
)

pytestmark = [pytest.mark.docker, PATIENT]


def started(home: Path, application: Path, iterations: int) -> subprocess.Popen[str]:
    """Start a study in a process of its own; its lines are on standard error."""
    command = [*TAILOR, "tune", str(application), *SHORT, "--iterations", str(iterations)]
    return subprocess.Popen(
        command,
        env=environment(home),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background ignores Ctrl-C, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(running: subprocess.Popen[str], beginning: str) -> None:
    """Read the study's lines up to one with this beginning."""
    assert running.stderr is not None
    said = []
    for line in running.stderr:
        said.append(line)
        if line.startswith(beginning):
            return
    if DISTURBED in "".join(said):
        raise Disturbed(said)
    pytest.fail("".join(said))


def only_study(home: Path) -> dict[str, Any]:
    [listed] = json.loads(tailor(home, "studies", "--json").stdout)
    return dict(listed)


def test_kill_9_loses_no_finished_trial_and_leaves_nothing(home: Path, slice_application: Path) -> None:
    running = started(home, slice_application, iterations=3)
    wait_for(running, "trial 2")
    running.send_signal(signal.SIGKILL)
    running.communicate()
    study = only_study(home)["study"]
    before = finished(home, study)
    assert len(before) >= 2
    tailor(home, "clean")
    assert left_behind(study) == []
    resumed = json.loads(tailor(home, "resume", study, "--json").stdout)
    assert resumed["state"] == "completed"
    after = finished(home, study)
    assert after[: len(before)] == before
    assert left_behind(study) == []


def test_ctrl_c_pauses_and_cleans_up(home: Path, slice_application: Path) -> None:
    running = started(home, slice_application, iterations=9)
    wait_for(running, "trial 1")
    running.send_signal(signal.SIGINT)
    _, rest = running.communicate()
    assert running.returncode == 130, rest
    assert "tailor resume" in rest
    listed = only_study(home)
    assert listed["state"] == "paused"
    assert left_behind(listed["study"]) == []


def first_search_trial(home: Path) -> tuple[str, int]:
    """Return study and number of the first search trial (after those of the default); number 0 before it begins."""
    if not (home / "tailor.db").is_file():
        return "", 0
    with closing(sqlite3.connect(f"file:{home / 'tailor.db'}?mode=ro", uri=True, timeout=30)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'trials'").fetchall():
            return "", 0
        first = "SELECT study, number FROM trials WHERE purpose = 'search' ORDER BY number LIMIT 1"
        study, number = database.execute(first).fetchone() or ("", 0)
    return str(study), int(number)


def kill_while_loaded(home: Path, service: str) -> Callable[[], bool]:
    """Kill a service's container once the load of the first search trial runs; return whether it did."""

    def running(*filters: str) -> list[str]:
        command = ["docker", "ps", "-q", *(word for label in filters for word in ("--filter", f"label={label}"))]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    def attempt() -> bool:
        study, trial = first_search_trial(home)
        its = (f"tailor.study={study}", f"tailor.trial={trial}")
        if not trial or not running("tailor.role=loadgen", *its):
            return False
        containers = running(f"com.docker.compose.service={service}", *its)
        return bool(containers) and subprocess.run(["docker", "kill", *containers], capture_output=True).returncode == 0

    return attempt


@pytest.mark.parametrize("service", ["jaeger", "url-shorten-db"])
def test_a_container_killed_during_the_load_fails_its_trial_and_no_other(
    home: Path, slice_application: Path, service: str
) -> None:
    running = started(home, slice_application, iterations=2)
    kill = kill_while_loaded(home, service)
    while not kill() and running.poll() is None:
        time.sleep(0.05)
    _, said = running.communicate()
    if running.returncode and DISTURBED in said:
        raise Disturbed(said)
    assert running.returncode == 0, said
    study = only_study(home)["study"]
    trials = trials_of(home, study)
    [killed] = [trial for trial in trials if trial["state"] == "failed"]
    assert killed["number"] == first_search_trial(home)[1]
    assert service in killed["reason"]
    assert "137" in killed["reason"]
    assert all(trial["state"] == "completed" for trial in trials if trial is not killed)
    assert left_behind(study) == []


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tailor-test", str(place)], capture_output=True)
    if mounted.returncode != 0:
        if os.environ.get("TAILOR_REQUIRE_DOCKER") == "1":
            pytest.fail(f"a small disk cannot be mounted: {mounted.stderr.decode()}")
        pytest.skip("only root may mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(file: Path) -> None:
    """Write until the disk is full."""
    with file.open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))


def test_a_full_disk_pauses_the_study(tmp_path: Path, slice_application: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        home, ballast = disk / "home", disk / "ballast"
        running = started(home, slice_application, iterations=2)
        wait_for(running, "trial 1")
        with pytest.raises(OSError, match="No space"):
            fill(ballast)
        _, said = running.communicate()
        assert running.returncode == 6, said
        assert "disk is full" in said or "No space left" in said
        assert "tailor resume" in said
        ballast.unlink()
        study = only_study(home)["study"]
        assert left_behind(study) == []
        before = finished(home, study)
        assert before
        tailor(home, "resume", study)
        assert finished(home, study)[: len(before)] == before
        assert left_behind(study) == []


def test_a_read_only_disk_is_named(tmp_path: Path, slice_application: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        said = tune(disk / "home", slice_application, code=2).stderr
        assert str(disk) in said
        assert "Read-only" in said


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
    listed = only_study(home)
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
