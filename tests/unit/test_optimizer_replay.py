"""A recorded study as a problem, from the store to a table."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framework.benchmark.races import recorded, replayed
from framework.errors import StoreError
from framework.model import TrialState
from optimizer.benchmark.replay import Replay, Result
from optimizer.errors import InvalidInput
from optimizer.space import Parameter, SearchSpace
from tests.fakes import begun, pretend_bench
from tests.unit.test_procedure import PLAN, machine

ROOT = Path(__file__).resolve().parents[2]
SPACE = SearchSpace([Parameter(name, "real", 0.5, low=0.0, high=1.0) for name in ("a", "b")])


def record(count: int = 30) -> list[Result]:
    rng = np.random.default_rng(2)
    points = [SPACE.default(), *(SPACE.from_unit(rng.random(2)) for _ in range(count))]
    return [Result(point.to_dict(), 10.0 + 5.0 * float(point["a"]), 0.03) for point in points]


def test_what_was_measured_is_answered_as_measured_and_the_rest_between() -> None:
    made = Replay("x", SPACE, [*record(), Result({"a": 0.123}, None)])
    for result in record():
        assert made.truth(SPACE.validate({**SPACE.default(), **result.values})) == pytest.approx(result.value)
    assert made.truth(SPACE.default().replace({"a": 0.123})) is None
    values = [made.truth(SPACE.from_unit(np.random.default_rng(seed).random(2))) for seed in range(50)]
    low, high = min(point.value or 0 for point in record()), max(point.value or 0 for point in record())
    assert all(value is not None and low <= value <= high for value in values)
    assert made.noise(SPACE.default()) == 0.03
    assert 0.5 < made.explained <= 1
    assert "31 measured configurations" in made.statement
    assert "never predicts below the best" in " ".join(made.statement.split())


def test_a_record_that_says_too_little_is_refused() -> None:
    with pytest.raises(InvalidInput, match="9 configurations with a value"):
        Replay("x", SPACE, record(8))
    with pytest.raises(InvalidInput, match="the default among them"):
        Replay("x", SPACE, record()[1:])
    with pytest.raises(InvalidInput, match="above 0"):
        Replay("x", SPACE, [*record(), Result({"a": 0.1}, -1.0)])


def test_a_study_becomes_a_record_and_a_problem(tmp_path: Path) -> None:
    bench = pretend_bench(tmp_path, machine(noise=0.02))
    study, procedure = begun(bench, replace(PLAN, iterations=12))
    finished = procedure.run()
    trials = bench.store.trials(study.id)
    path = tmp_path / "record.json"
    path.write_text(json.dumps(recorded(finished, trials)))
    made = replayed(path)
    told = next(t for t in trials if t.purpose == "search" and t.state is TrialState.COMPLETED)
    truth = made.truth(made.space.validate(told.configuration))
    assert truth is not None
    assert told.told_value is not None
    assert math.isclose(truth, told.told_value)
    done = subprocess.run(
        [sys.executable, "-c", "from framework.cli.main import main; main()", "replay", str(path), "random", "dds",
         "--seeds", "2", "--evaluations", "4", "--output", str(tmp_path / "out"), "--json"],
        cwd=ROOT, capture_output=True, text=True, check=True,
        env={"TAILOR_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert set(document["mean_ranks"]["4"]) == {"random", "dds"}
    assert "13 measured configurations" in document["title"]
    assert "answered as measured" in (tmp_path / "out" / "tables.md").read_text()
    path.write_text("{}")
    with pytest.raises(StoreError, match="no recorded study"):
        replayed(path)
