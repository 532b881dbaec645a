"""Tailor as a user calls it, for the tests of whole studies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from framework.bench import TestbedKind
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.testing.testbed import GivenTestbed
from tests.testbed_documents import new_project

ROOT = Path(__file__).resolve().parents[2]
TAILOR = [sys.executable, "-c", "from framework.cli.main import main; main()"]

# A machine that runs tests is not quiet: these tests are about the order of things, not about the numbers, so
# the application's limits on disturbance are wide.
WIDE = {
    "generator_lag": 100.0,
    "stolen_cpu": 0.99,
    "p95_disagreement": 10.0,
    "stationarity_change": 1000.0,
    "unsettled": 1.0,
    "achieved_rate": 0.5,
    "errors": 0.5,
}

DISTURBED = "no valid repetition"  # of a trial's reason: Tailor tried several times and refused every window
PATIENT = pytest.mark.flaky(reruns=3, reruns_delay=30, only_rerun=["Disturbed"])


class Disturbed(Exception):
    """The machine's host left a study too little CPU time to measure anything: such a test is run again."""


SHORT = (
    "--iterations", "2", "--repetitions", "1", "--duration", "3s", "--warm-up", "1s", "--pairs", "2",
    "--drift-every", "0",
)  # fmt: skip


def environment(home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "TAILOR_HOME": str(home), "PYTHONPATH": str(ROOT), **more}


def tailor(home: Path, *arguments: str, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
    command = [*TAILOR, *arguments]
    done = subprocess.run(command, env=environment(home, **more), cwd=ROOT, capture_output=True, text=True, timeout=500)
    if done.returncode != code and DISTURBED in done.stdout + done.stderr:
        raise Disturbed(done.stdout + done.stderr)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def tune(
    home: Path, application: Path, *arguments: str, code: int = 0, **more: str
) -> subprocess.CompletedProcess[str]:
    return tailor(home, "tune", str(application), *SHORT, *arguments, code=code, **more)


def left_behind(study: str = "") -> list[str]:
    """Return containers, networks and volumes of a study (or of any), without kept data."""
    label = f"label=tailor.study={study}" if study else "label=tailor.study"
    names: list[str] = []
    for what in (["ps", "-aq"], ["network", "ls", "-q"], ["volume", "ls", "-q"]):
        listed = subprocess.run(["docker", *what, "--filter", label], capture_output=True, text=True, check=True)
        names += listed.stdout.split()
    return names


def left_behind_of(home: Path) -> list[str]:
    """Return what the studies of a TAILOR_HOME left behind; other tests run at the same time."""
    studies = json.loads(tailor(home, "studies", "--json", code=0).stdout)
    assert studies
    return [name for study in studies for name in left_behind(study["study"])]


def trials_of(home: Path, study: str, **more: str) -> list[dict[str, Any]]:
    """Return the study's trials in order.  Raises Disturbed where a window was refused as invalid."""
    trials: list[dict[str, Any]] = json.loads(tailor(home, "show", study, "--json", code=0, **more).stdout)[
        "trials_detail"
    ]
    refused = [reason for trial in trials for measurement in trial["measurements"] for reason in measurement["invalid"]]
    if refused:
        raise Disturbed(refused)
    return trials


def measured_once(home: Path, printed: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each trial and its only measurement, of a study that ``tune --json`` printed; all have to be completed."""
    document = json.loads(printed)
    assert document["state"] == "completed"
    pairs = []
    for trial in trials_of(home, document["study"]):
        assert trial["state"] == "completed", trial["reason"]
        [measurement] = trial["measurements"]
        pairs.append((trial, measurement))
    assert left_behind(document["study"]) == []
    return pairs


def finished(home: Path, study: str) -> list[tuple[int, float]]:
    return [(t["number"], t["value"]) for t in trials_of(home, study) if t["state"] == "completed"]


def edit(application: Path, file: str, old: str, new: str) -> None:
    path = application / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def slice_in(directory: Path) -> Path:
    """Copy the slice, with wide limits and little data; return its directory."""
    target = directory / "url-shortener"
    shutil.copytree(ROOT / "apps" / "url-shortener", target)
    text = (target / "application.yaml").read_text()
    assert "limits:" not in text
    (target / "application.yaml").write_text(text + f"limits: {json.dumps(WIDE)}\n")
    for file in ("compose.yaml", "workload.yaml"):
        edit(target, file, "400000", "2000")
    return target


def slice_on(kind: TestbedKind, directory: Path, rate_rps: float) -> GivenTestbed:
    """Return the slice on a testbed, for the contract kits."""
    assert kind.manage is not None
    machine = kind.manage({}).machine()
    types = resolved(load_service_types(), cores=machine.cores, memory_mib=machine.memory_mib)
    return GivenTestbed(kind, load_application(slice_in(directory)), types, new_project(), rate_rps=rate_rps)
