"""Testbeds by name and instance, and a whole study on several twins, with threads."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from framework.bootstrap.adapters import Opened, opened
from framework.config.settings import Settings
from framework.config.twin_file import load_twin, twin_path
from framework.errors import FieldError, InputError, MissingPrerequisite, UnknownName
from framework.model import StudyState, TrialState, TuneRequest
from framework.report.page import page
from framework.report.summary_json import summary_document
from framework.study.planning import check_testbeds
from framework.testbeds.twin import machine_factor
from framework.use_cases.examine import examine

ROOT = Path(__file__).resolve().parents[2]
HOTEL = ROOT / "apps" / "hotel-reservation"
REQUEST = TuneRequest(
    HOTEL, testbeds=("twin:1", "twin:2", "twin:3"), iterations=7, repetitions=2, window_s=5.0, warmup_s=1.0, pairs=6,
    minimal=0, drift_every=2, optimizer="dds",
)  # fmt: skip


@pytest.fixture
def tailor(tmp_path: Path) -> Iterator[Opened]:
    """Return the use cases with their real adapters, below a new TAILOR_HOME."""
    use_cases = opened(Settings.from_environment({"TAILOR_HOME": str(tmp_path)}))
    yield use_cases
    use_cases.close()


def test_a_study_on_three_twins(tailor: Opened) -> None:
    study = tailor.studies.create(REQUEST)
    assert (study.testbed, study.plan.testbeds, study.modelled) == ("twin:1", REQUEST.testbeds, True)
    done = tailor.studies.run(study.id, lambda event: None)
    assert done.state is StudyState.COMPLETED
    trials = tailor.store.trials(study.id)
    assert {t.state for t in trials} <= {TrialState.COMPLETED, TrialState.FAILED, TrialState.INFEASIBLE}
    assert {t.testbed for t in trials} == set(REQUEST.testbeds)
    assert sorted(t.ask for t in trials if t.ask is not None) == list(range(7))
    assert any(t.pending_asks for t in trials)
    for pair in range(6):
        assert len({t.testbed for t in trials if t.purpose == "verdict" and t.pair == pair}) == 1
    shown = json.dumps(summary_document(tailor.results.summary(done)), default=str)
    assert '"testbed": "twin:1"' in shown
    assert not tailor.store.leased()
    html = page(tailor.results.summary(done), trials)
    [table] = re.findall(r"<table data-trials>.*?</table>", html, re.DOTALL)
    first, second = table.split("</tr>")[:2]
    assert first.count("<th") == second.count("<td") == 8
    assert "<th>testbed</th>" in first


def test_levels_of_several_testbeds_are_on_the_reference_s_scale(tailor: Opened) -> None:
    study = tailor.studies.create(replace(REQUEST, pairs=0))
    done = tailor.studies.run(study.id, lambda event: None)
    summary = tailor.results.summary(done)
    assert summary.best is not None
    best = tailor.store.trials(study.id)[(done.best or 0) - 1]
    assert summary.best.value.value == best.told_value
    assert summary.equal_speed is None


def test_testbeds_on_one_engine_are_refused(tailor: Opened) -> None:
    kind = tailor.backends.kind("twin")
    application = tailor.backends.application(HOTEL)
    kinds = [replace(kind, name=name, engines=lambda: {"engine 1"}) for name in REQUEST.testbeds]
    with pytest.raises(FieldError, match="common engine"):
        check_testbeds(REQUEST, kinds, application)
    apart = [replace(kind, engines=partial(set, (name,))) for name in REQUEST.testbeds]
    check_testbeds(REQUEST, apart, application)


def test_an_instance_is_a_machine_of_its_own(tailor: Opened) -> None:
    kind = tailor.backends.kind("twin:7")
    assert (kind.name, kind.modelled, kind.at) == ("twin:7", True, None)
    application = tailor.backends.application(HOTEL)
    assert kind.open(application, {}).testbed.machine() == tailor.backends.machine_of("twin", application)
    twin = replace(load_twin(twin_path(HOTEL)), run_spread=0.1)
    factors = {machine_factor(twin, str(number)) for number in range(1, 9)}
    assert len(factors) == 8
    assert all(0.6 < factor < 1.6 for factor in factors)
    assert machine_factor(twin, "1") == machine_factor(twin, "1")
    assert machine_factor(twin, "") == 1.0


def test_a_swarm_is_named_by_the_operator(tmp_path: Path) -> None:
    settings = Settings.from_environment({"TAILOR_HOME": str(tmp_path), "TAILOR_SWARM_LEFT": "unix:///nowhere.sock"})
    use_cases = opened(settings)
    kind = use_cases.backends.kind("swarm:left")
    assert (kind.name, kind.at, kind.exclusive) == ("swarm:left", None, True)
    assert [other.name for other in use_cases.backends.others()] == ["twin", "swarm", "swarm:left"]
    assert [other.manage is None for other in use_cases.backends.others()] == [True, True, False]
    with pytest.raises(FieldError, match="allowed: swarm:left"):
        use_cases.backends.kind("swarm:right")
    [finding] = examine(use_cases.backends, [], "swarm:left")
    assert (finding.state, finding.needed) == ("missing", True)
    [finding] = examine(use_cases.backends, [HOTEL], "swarm")
    assert "TAILOR_SWARM" in finding.remedy
    with pytest.raises(MissingPrerequisite, match="without an application"):
        examine(use_cases.backends, [], "twin")
    use_cases.close()


@pytest.mark.parametrize("name", ["docker:remote", "swarm:left", "twin:", "twin:a b", "twin:1:2", f"twin:{'x' * 25}"])
def test_an_instance_that_a_kind_does_not_have_is_refused(tailor: Opened, name: str) -> None:
    with pytest.raises(FieldError, match="testbed"):
        tailor.backends.kind(name)


def test_a_kind_that_there_is_not_is_an_unknown_name(tailor: Opened) -> None:
    with pytest.raises(UnknownName, match="nothing"):
        tailor.backends.kind("nothing:1")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"testbeds": ("twin:1", "twin:1")}, "each once"),
        ({"testbeds": ("twin:1", "twin:2"), "testbed": "twin", "given": frozenset({"testbed"})}, "one of them"),
        ({"rates": (100.0, 200.0)}, "rates"),
        ({"target_ms": 5.0}, "target_ms"),
        ({"also": ("cpu",)}, "also"),
        ({"placement": "also"}, "placement"),
    ],
)
def test_what_several_testbeds_cannot_do_is_refused(tailor: Opened, changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tailor.studies.prepared(replace(REQUEST, **changes))  # type: ignore[arg-type]


def test_the_experiment_in_short() -> None:
    """One seed on two twins: it counts every trial, and compares with the sequential study's best."""
    runner = runpy.run_path(str(ROOT / "experiments" / "side-by-side" / "run"))
    runner["of_seed"].__globals__.update(TRIALS=5, MOST=8)
    row = runner["of_seed"](HOTEL, [2], "random", 3)
    assert row["1"]["trials_in_all"] == 5
    assert row["2"]["trials_in_all"] == 8
    assert row["1"]["reached"] <= 1
    assert 0.4 < row["2"]["wall_of_30"] < 0.75
    told = runner["summary"]([row], [2])
    assert told["seeds"] == 1
    assert told["2"]["reached"] in (0, 1)
    never = {**row, "2": {**row["2"], "reached": None, "trials": None}}
    assert runner["summary"]([never, row, never], [2])["2"]["median"] is None
