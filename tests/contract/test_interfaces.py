"""The command line and the API run the same use cases: the same job gives the same study."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.serving import JOB, serving

ROOT = Path(__file__).resolve().parents[2]
TAILOR = [sys.executable, "-c", "from framework.cli.main import main; main()"]
OPTIONS = {"iterations": "--iterations", "repetitions": "--repetitions", "pairs": "--pairs", "rate_rps": "--rate",
           "drift_every": "--drift-every", "minimal": "--minimal", "testbed": "--testbed"}  # fmt: skip
ITS_OWN = ("study", "report", "job", "progress", "created_at", "phases_s", "per_trial_s", "overhead", "cpu", "machine")


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"optimizer": "tailor", "only": ["nginx"], "seed": 7},
        {"rate_rps": None, "rates": [100, 200], "over": "mean", "weights": [1, 3]},
    ],
)
def test_the_same_job_gives_the_same_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    job: dict[str, Any] = {"optimizer": "dds", "seed": 1, "only": [], **JOB, **more}
    with serving(tmp_path, monkeypatch) as here:
        study = here.launch(**{name: value for name, value in job.items() if JOB.get(name) != value})
        here.kept.worker.run(until_empty=True)
        by_http = here.get(f"/studies/{study}")
        trials_by_http = here.get(f"/studies/{study}/trials?limit=200")["items"]
        arguments = ["tune", str(tmp_path / "apps" / "url-shortener"), "--json", "--optimizer", str(job["optimizer"]),
                     "--seed", str(job["seed"]), "--duration", f"{job['window_s']}s",
                     "--warm-up", f"{job['warmup_s']}s"]  # fmt: skip
        for name, option in OPTIONS.items():
            arguments += [option, str(job[name])] if job[name] is not None else []
        for name in ("rates", "weights"):
            arguments += [f"--{name}", ",".join(map(str, job[name]))] if name in job else []
        arguments += ["--over", job["over"]] if "over" in job else []
        for service in job["only"]:
            arguments += ["--only", service]
        home = {"TAILOR_HOME": str(tmp_path / "other"), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [*TAILOR, *arguments], capture_output=True, text=True, env=os.environ | home, cwd=tmp_path, check=True
        )
        by_hand = json.loads(done.stdout)
        shown = subprocess.run(
            [*TAILOR, "show", by_hand["study"], "--json"],
            capture_output=True, text=True, env=os.environ | home, cwd=tmp_path, check=True,
        )  # fmt: skip
    for name in by_hand.keys() & by_http.keys() - set(ITS_OWN):
        assert by_hand[name] == by_http[name], name
    assert {"headline", "default", "best", "verdict", "trials", "changes"} <= by_hand.keys() & by_http.keys()
    values = [(trial["number"], trial["purpose"], trial["configuration"], trial["value"]) for trial in trials_by_http]
    trials = json.loads(shown.stdout)["trials_detail"]
    assert values == [(trial["number"], trial["purpose"], trial["configuration"], trial["value"]) for trial in trials]
