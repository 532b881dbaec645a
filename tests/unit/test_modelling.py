"""Twins from recorded studies, and the questions they answer: everything but the engine is real."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from framework.bootstrap import adapters
from framework.cli import main
from framework.config.settings import Settings
from framework.config.space import search_space
from framework.config.twin_file import load_twin, twin_path, twin_text
from framework.errors import FileError, InputError, MissingPrerequisite
from framework.model import Study, StudyPlan, StudyState, TuneRequest
from framework.model.decisions import ModelledPoint, StudyDecisions
from framework.placement.profile import Profile, ProfileHeader, ProfileWindow, StressorProbe
from framework.study.new_optimizer import new_optimizer
from framework.study.procedure import Procedure
from framework.testing.clock import VirtualClock
from framework.testing.pretend import MACHINE
from framework.twin.calibration.data import read_evidence
from framework.twin.screen import screened
from framework.use_cases.twin import Twins
from optimizer.space import SearchSpace
from tests.unit.test_twin_testbed import SLICE, TWIN, TYPES, bench_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """Copy the url-shortener, with the twin made by hand in its directory."""
    copied = tmp_path / "url-shortener"
    shutil.copytree(SLICE.directory, copied)
    twin_path(copied).write_text(twin_text(TWIN))
    return copied


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAILOR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")  # no engine answers
    return tmp_path / "home"


@pytest.fixture
def tailor(home: Path) -> Iterator[adapters.Opened]:
    opened = adapters.opened(Settings.from_environment())
    yield opened
    opened.close()


QUICK: Any = {"iterations": 3, "repetitions": 2, "pairs": 6, "warmup_s": 2.0, "window_s": 6.0, "rate_rps": 300.0}


def test_without_an_engine_a_study_runs_on_the_twin(application: Path, tailor: adapters.Opened, tmp_path: Path) -> None:
    study = tailor.studies.create(TuneRequest(application, minimal=0, drift_every=0, **QUICK))
    assert study.testbed == "twin"
    assert study.modelled
    assert "nginx.tcp_nodelay" in study.decisions.inert
    finished = tailor.studies.run(study.id, lambda event: None)
    assert finished.state is StudyState.COMPLETED
    summary = tailor.results.summary(finished)
    assert summary.headline.startswith("Modelled, not measured.")
    page = tailor.results.write_report(finished, tmp_path / "page.html").read_text()
    assert "Modelled, not measured: no application ran" in page
    assert page.count("modelled, not measured</text>") == page.count("<svg")


def test_a_study_does_not_go_on_with_another_twin(application: Path, tailor: adapters.Opened) -> None:
    study = tailor.studies.create(TuneRequest(application, minimal=0, **QUICK))
    twin_path(application).write_text(twin_text(replace(TWIN, run_spread=0.2)))
    with pytest.raises(InputError, match="twin of url-shortener changed"):
        tailor.studies.run(study.id, lambda event: None)


def test_testbeds_are_chosen_by_name(application: Path, tailor: adapters.Opened) -> None:
    with pytest.raises(InputError, match="unknown testbed 'cloud'; known: auto, docker, swarm, twin"):
        tailor.studies.create(TuneRequest(application, testbed="cloud"))
    twin_path(application).unlink()
    with pytest.raises(MissingPrerequisite, match=r"has no twin\.json"):
        tailor.studies.create(TuneRequest(application, testbed="twin"))
    with pytest.raises(InputError, match="prior twin"):
        tailor.studies.create(TuneRequest(application, prior="twin"))


def test_what_if(application: Path, tailor: adapters.Opened) -> None:
    ask = tailor.twins.what_if
    answer = ask(application, {"nginx.upstream_keepalive": 64, "nginx.tcp_nodelay": False}, seconds=5, count=4)
    assert answer.ratio is not None
    assert answer.ratio.high < 1, "connections that are kept need not be set up"
    assert answer.inert == ("nginx.tcp_nodelay",)
    again = ask(application, {"nginx.upstream_keepalive": 64, "nginx.tcp_nodelay": False}, seconds=5, count=4)
    assert again == answer
    swept = ask(application, {}, seconds=2, count=2, limit_ms=30.0)
    assert swept.changed is None
    assert swept.default.sweep is not None
    assert swept.default.sweep.passed
    assert tailor.twins.plot(swept).read_text().count("modelled, not measured") == 1
    with pytest.raises(InputError, match=r"nearest: nginx\.worker_processes"):
        ask(application, {"nginx.worker_process": 4})
    with pytest.raises(InputError, match=r"^changes nginx\.worker_processes: found 100000"):
        ask(application, {"nginx.worker_processes": 100_000})


def recorded_study(directory: Path, name: str = "s1") -> Any:
    """Run a study on the twin made by hand, recorded as if it had been measured, with the traces of the default."""
    bench, testbed = bench_of(directory, VirtualClock())
    testbed.modelled = False
    space = search_space(SLICE, TYPES, cores=2, memory_mib=16_384)
    plan = StudyPlan(
        str(SLICE.directory), "random", {}, iterations=8, repetitions=2, warmup_s=2.0, window_s=8.0, rate_rps=300.0,
        seed=1, pairs=6, drift_every=0,
    )  # fmt: skip
    study = Study(name, "now", StudyState.CREATED, plan, "0", space.to_dict(), MACHINE, {}, "docker")
    bench.store.create(study)
    Procedure(bench, study, space).run()
    return bench


def profile_of(path: Path, application: str = "url-shortener") -> Path:
    """Write a profile by hand: two services that slow each other down, and one that does not."""
    names = {"nginx": 0.3, "url-shorten": 0.5, "url-shorten-db": 0.2}
    about = ProfileHeader(application, "", {}, "0", "1", 300.0, 1.0, 2.0, 1, names)
    windows = [
        ProfileWindow(
            name, kind, int(bool(kind)), float(bool(kind)), 0, at, 99, ms, ms, ms, ms, 300.0, 0.3, 0.0, 9.0, done
        )
        for name, slow, done in (("nginx", 5.0, 100.0), ("url-shorten", 15.0, 50.0), ("url-shorten-db", 15.0, 50.0))
        for at, (kind, ms) in enumerate([("", 5.0), ("l3", slow), ("l3", slow), ("", 5.0)])
    ]
    path.write_text(
        Profile(about, windows, [StressorProbe("l3", 0.0, 100.0), StressorProbe("l3", 1.0, 50.0)]).to_lines()
    )
    return path


def test_placements_are_tried_on_the_twin_of_another_machine(
    application: Path, tailor: adapters.Opened, tmp_path: Path
) -> None:
    profile = profile_of(tmp_path / "profile.jsonl")
    twins = tailor.twins
    twin = twins.rehosted(application, cores=16, nodes=2, memory_mib=32_768, profile=profile)
    about = {service.name: service for service in twin.services}
    assert about["url-shorten"].sensitivity["l3"] == pytest.approx(math.log(3.0))
    assert (about["url-shorten"].pressure["l3"], about["nginx"].pressure["l3"]) == (1.0, 0.0)
    assert about["url-shorten-memcached"] == next(
        service for service in TWIN.services if service.name == "url-shorten-memcached"
    )
    twins.write_twin(twin, application)
    request = TuneRequest(
        application, optimizer="placement-exact", iterations=1, placement="only", profile=profile, minimal=0,
        repetitions=2, pairs=6, drift_every=0, warmup_s=2.0, window_s=6.0, rate_rps=300.0,
        only=("nginx", "url-shorten", "url-shorten-db"),
    )  # fmt: skip
    study = tailor.studies.run(tailor.placements.propose(request).id, lambda event: None)
    assert study.machine.cores == 16
    [searched] = [trial for trial in tailor.store.trials(study.id) if trial.purpose == "search"]
    assert set(searched.configuration.values()) == {"0-7", "8-15"}, "the modelled machine's, not this one's"
    assert searched.configuration["url-shorten.cpuset"] != searched.configuration["url-shorten-db.cpuset"]
    assert study.verdict is not None
    assert study.verdict.statement == "improvement", "they harm each other half of the time where all are everywhere"
    picture = tailor.placements.write_machine(study, searched.configuration)
    assert picture is not None
    assert "CPU 0-15" in picture.read_text()
    again = twins.rehosted(application, cores=4, nodes=1, memory_mib=4096)
    assert [service.sensitivity for service in again.services] == [service.sensitivity for service in twin.services], (
        "they stay"
    )
    with pytest.raises(InputError, match="is of another, not of url-shortener"):
        twins.rehosted(
            application, cores=4, nodes=1, memory_mib=4096, profile=profile_of(tmp_path / "o.jsonl", "another")
        )


def test_rehost_on_the_command_line(application: Path, home: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    asked = ["twin", "rehost", str(application), "--cores", "8", "--output", str(tmp_path / "t.json")]
    done = runner.invoke(main.app, [*asked, "--nodes", "2", "--json"])
    assert done.exit_code == 0, done.output
    assert load_twin(Path(json.loads(done.stdout)["twin"])).hosts[0].nodes == 2
    refused = runner.invoke(main.app, [*asked, "--nodes", "9"])
    assert "--nodes: found 9; allowed: 1 to 8" in str(refused.exception or refused.output)


@pytest.mark.slow
def test_a_twin_is_made_from_studies(tmp_path: Path, application: Path, tailor: adapters.Opened) -> None:
    bench = recorded_study(tmp_path)
    twins = Twins(replace(tailor.backends, store=bench.store, artefacts=bench.artefacts))
    evidence = twins.write_evidence(application, ["s1"], tmp_path / "evidence.json")
    kept = read_evidence(evidence)
    assert kept.rate_rps == 300.0
    assert {operation.key[0] for operation in kept.structure.operations} >= {"nginx", "url-shorten", "url-shorten-db"}
    assert len(kept.points) == 9
    assert sum(not point.configuration for point in kept.points) == 1
    calibrated = twins.calibrate(application, [str(evidence)], steps=25)
    assert calibrated.twin == twins.calibrate(application, ["s1"], steps=25).twin, "from the file as from the study"
    assert calibrated.twin.fit["fitted_p95_error"] < 0.5
    assert calibrated.twin.fit["fitted_points"] + calibrated.twin.fit["validation_points"] == 9
    measured, modelled = calibrated.services["url-shorten"]
    assert modelled == pytest.approx(measured, rel=0.6)
    twins.write_twin(calibrated.twin, application)
    assert twins.what_if(application, {}, seconds=3, count=2).default.quantities["p95"].value > 0


def test_evidence_is_refused_with_the_reason(tmp_path: Path, application: Path, tailor: adapters.Opened) -> None:
    path = tmp_path / "e.json"
    path.write_text(json.dumps({"kind": "configuration", "version": 1}))
    with pytest.raises(FileError, match="twin-evidence"):
        tailor.twins.evidence(application, [str(path)])
    study = tailor.studies.create(TuneRequest(application, minimal=0, **QUICK))
    with pytest.raises(InputError, match="was modelled; a twin is made from what was measured"):
        tailor.twins.evidence(application, [study.id])


def test_a_prior_from_the_twin(application: Path, tailor: adapters.Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "screened", partial(screened, design=30, per_round=10))  # a minute otherwise
    for optimizer in ("tailor", "dds"):
        request = TuneRequest(application, optimizer=optimizer, prior="twin", minimal=0, drift_every=0, **QUICK)
        study = tailor.studies.run(tailor.studies.create(request).id, lambda event: None)
        best = min(study.decisions.prior or (), key=lambda point: point.log_ratio)
        default = SearchSpace.from_dict(study.space).default()
        first = next(t for t in tailor.store.trials(study.id) if t.purpose == "search")
        changed = {name: value for name, value in first.configuration.items() if value != default[name]}
        assert changed == best.values, "the search starts at the best that the twin knows"


@pytest.mark.parametrize("name", ["space", "seed", "budget", "start", "modelled", "self", "no-such"])
@pytest.mark.parametrize("optimizer", ["tailor", "dds"])
def test_an_option_is_no_other_argument(optimizer: str, name: str) -> None:
    space = search_space(SLICE, TYPES, cores=2, memory_mib=16_384)
    plan = StudyPlan("a", optimizer, {name: [0.5]}, 5, 1, 1.0, 1.0, 10.0, 1, 0)
    with pytest.raises(InputError, match=f"{optimizer} has no option '{name}'; known: "):
        new_optimizer(plan, StudyDecisions(), space)


@pytest.mark.parametrize("rate_rps", [200.0, 5000.0, 20_000.0])
def test_a_default_under_which_requests_fail(rate_rps: float) -> None:
    """For a rate that the default, or any configuration, cannot serve, the model gives a finite number or no point."""
    space = search_space(SLICE, TYPES, cores=2, memory_mib=16_384)
    points = screened(TWIN, SLICE, TYPES, space, rate_rps, 1, design=30, per_round=5)
    assert all(math.isfinite(point.log_ratio) for point in points)


def test_the_command_line_says_modelled(application: Path, home: Path) -> None:
    runner = CliRunner()
    short = ["twin", "what-if", str(application), "--duration", "3s", "--replications", "2"]
    asked = runner.invoke(main.app, [*short, "--set", "nginx.upstream_keepalive=64", "--json"])
    assert asked.exit_code == 0, asked.output
    assert json.loads(asked.stdout)["modelled"] is True
    shown = runner.invoke(main.app, short)
    assert shown.stdout.startswith("MODELLED")


@pytest.mark.parametrize("ratios", [[0.0], [0.0, math.inf], [math.nan, -math.inf]])
@pytest.mark.parametrize("optimizer", ["tailor", "dds"])
def test_a_prior_that_tells_nothing_apart_is_none(optimizer: str, ratios: list[float]) -> None:
    """Such a prior comes from a space with almost nothing to choose, or from a rate that the model cannot serve."""
    space = search_space(SLICE, TYPES, cores=2, memory_mib=16_384)
    names = space.names
    points = tuple(ModelledPoint({names[0]: space.parameters[0].default}, ratio) for ratio in ratios)
    plan = StudyPlan("a", optimizer, {}, 5, 1, 1.0, 1.0, 10.0, 1, 0, prior="twin")
    decisions = StudyDecisions(prior=points)
    [first] = new_optimizer(plan, decisions, space).ask()
    assert first.configuration == space.default()
    assert new_optimizer(plan, decisions, space).ask(3)
