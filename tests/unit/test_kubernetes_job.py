"""The example of a job in a cluster: its manifest fits the API, and its program measures for the real service."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from framework.api.access import new_token
from framework.model import TrialState
from tests.kubernetes_manifests import schema_problems
from tests.serving import Here, serving

EXAMPLE = Path(__file__).parents[2] / "examples" / "kubernetes"
# Fails for many workers, as a cluster without room for them would; what APPLY set is what MEASURE sees.
APPLY = 'test "$WEB_WORKER_PROCESSES" -lt 14 || { echo "no room for it" >&2; exit 3; }; cat > "$STATE"'
MEASURE = """python3 -c '
import json, os
c = json.load(open(os.environ["STATE"]))
assert str(c["web.worker_processes"]) == os.environ["WEB_WORKER_PROCESSES"]
value = 10 + abs(c["web.worker_processes"] - 6) + c["cache.maxmemory_mb"] / 100
print(json.dumps({"value": value, "standard_error": 0.1}))
'"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    with serving(tmp_path, monkeypatch) as served:
        yield served


def job() -> dict[str, Any]:
    objects = list(YAML(typ="safe").load_all(EXAMPLE / "job.yaml"))
    assert [text for item in objects for text in schema_problems(item)] == []
    (found,) = [item for item in objects if item["kind"] == "Job"]
    return dict(found)


def measure(here: Here, tmp_path: Path, token: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
    """Run the job's program with the job's own variables, but for its commands and addresses."""
    study = json.loads((EXAMPLE / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps({**study, "budget": 12, "optimizer": "random", "seed": 3}))
    (container,) = job()["spec"]["template"]["spec"]["containers"]
    given = {item["name"]: item.get("value", "") for item in container["env"]}
    environment = given | {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "TAILOR_ADDRESS": str(here.client.base_url),
        "STUDY": str(tmp_path / "study.json"), "TAILOR_TOKEN": token, "CLIENT": "pod-1", "APPLY": APPLY,
        "MEASURE": MEASURE, "STATE": str(tmp_path / "state"),
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, EXAMPLE / "measure.py"], env=environment | changes, capture_output=True, text=True, timeout=300
    )


def test_the_job_measures_for_the_service_until_the_budget_is_used_up(here: Here, tmp_path: Path) -> None:
    token, digest = new_token()
    here.kept.tokens.add("cluster", digest, "run")
    done = measure(here, tmp_path, token)
    assert done.returncode == 0, done.stderr
    study = done.stdout.split()[1]
    trials = here.kept.store.trials(study)
    assert len(trials) == 12
    workers = {trial.number: int(str(trial.configuration["web.worker_processes"])) for trial in trials}
    failed = [trial for trial in trials if trial.state is TrialState.FAILED]
    assert {workers[trial.number] >= 14 for trial in failed} == {True}
    assert all("apply ended with 3: no room for it" in trial.reason for trial in failed)
    for trial in trials:
        if trial not in failed:
            memory = float(str(trial.configuration["cache.maxmemory_mb"]))
            assert trial.value == pytest.approx(10 + abs(workers[trial.number] - 6) + memory / 100)
    best = json.loads(done.stdout.partition("best: ")[2])
    assert best["value"] == min(trial.value for trial in trials if trial.value is not None)
    again = measure(here, tmp_path, token)
    assert again.stdout.split()[1] == study, "the same key, the same study"
    assert len(here.kept.store.trials(study)) == 12


def test_the_job_ends_with_the_services_reason(here: Here, tmp_path: Path) -> None:
    here.kept.tokens.add("somebody", new_token()[1], "run")
    done = measure(here, tmp_path, "tailor_wrong")
    assert done.returncode == 1
    assert "the service refuses: 401" in done.stderr


def test_a_measurement_without_a_result_is_a_trial_that_failed(here: Here, tmp_path: Path) -> None:
    done = measure(here, tmp_path, MEASURE="echo nothing")
    assert done.returncode == 0, done.stderr
    trials = here.kept.store.trials(done.stdout.split()[1])
    assert {trial.state for trial in trials} == {TrialState.FAILED}
    assert any("measure printed no result" in trial.reason for trial in trials)
    slow = measure(here, tmp_path, MEASURE="sleep 60", LIMIT_S="0.2", KEY="shop-2", APPLY="true")
    assert all("took too long" in trial.reason for trial in here.kept.store.trials(slow.stdout.split()[1]))
