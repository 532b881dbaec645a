"""``tailor plan --measure`` and ``--from``: from an application to plans, on its twin and on a pretended machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import framework.cli.plan
from framework.bench import Colocation
from framework.bootstrap.adapters import Opened
from framework.capacity.records import PlanRecords
from framework.cli.main import app
from framework.config.node_file import write_node
from framework.config.twin_file import twin_path, twin_text
from framework.errors import FieldError, FileError, InputError, NotFound, TailorError
from framework.model import TuneRequest
from framework.model.node_measurement import NodePoint
from framework.report.page import ENVIRONMENT
from tests.fakes import pretend_tailor
from tests.node_machine import NodeCounters, NodeMachine, node_machine
from tests.unit.test_node_sweep import node_with
from tests.unit.test_twin_testbed import SLICE, TWIN

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "cases" / "good" / "small"
MACHINES = str(ROOT / "examples" / "machines.yaml")
NEED = "kind: need\nversion: 1\nname: a shop\nreads: 20k/s\nwrites: 1k/s\nstored: 10GB\nrecord: 1KiB\n"


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["plan", *words])
    if isinstance(result.exception, TailorError):
        raise result.exception
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAILOR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    (tmp_path / "need.yaml").write_text(NEED)
    return tmp_path / "home"


@pytest.fixture
def shop(home: Path) -> Path:
    """An application with a twin."""
    directory = home.parent / "url-shortener"
    shutil.copytree(SLICE.directory, directory)
    twin_path(directory).write_text(twin_text(TWIN))
    return directory


def test_from_a_twin_to_a_page(shop: Path, home: Path) -> None:
    need = str(shop.parent / "need.yaml")
    words = [need, "--measure", str(shop), "--quick", "--cores", "1,2,4", "--catalogue", MACHINES, "--draws", "100"]
    status, text = run(*words)
    assert status == 0
    said = " ".join(text.split())
    assert "MODELLED" in said
    assert "cheapest: " in said
    assert "url-shorten" in said
    assert "each service on nodes of its own would take" in said
    [page] = home.glob("plans/*/plan.html")
    html = page.read_text()
    assert "Modelled, not measured" in html
    assert html.count("<svg") >= 5
    assert "<script" not in html
    assert "src=" not in html
    kept = json.loads((home / "nodes" / "url-shortener.json").read_text())
    assert [point["cores"] for point in kept["points"]] == [1, 2, 4]
    again, _ = run(*words, "--json")  # measured already
    assert again == 0
    status, text = run(
        need,
        "--node-from",
        str(home / "nodes" / "url-shortener.json"),
        "--catalogue",
        MACHINES,
        "--json",
        "--draws",
        "100",
    )
    document = json.loads(text)
    assert document["application"] == "url-shortener"
    assert document["modelled"] is True
    assert document["plans"]["plans"][0]["services"][0]["service"] in {service.name for service in TWIN.services}
    assert [round(point["cores"]) for point in document["reads"]["points"]] == [1, 2, 4]
    assert document["page"] == str(home / "plans" / document["plan"] / "plan.html")


def test_a_twin_is_swept_though_the_application_names_a_closed_loop(shop: Path, home: Path) -> None:
    (shop / "busy").mkdir()
    (shop / "busy" / "application.yaml").write_text("nobody reads this")
    with (shop / "application.yaml").open("a") as file:
        file.write("closed_loop: busy\n")
    need = str(shop.parent / "need.yaml")
    status, _ = run(
        need, "--measure", str(shop), "--quick", "--cores", "1,4", "--catalogue", MACHINES, "--draws", "100"
    )
    assert status == 0
    assert (home / "nodes" / "url-shortener.json").exists()


def test_requests_of_a_twin_may_be_reads_and_writes(shop: Path, home: Path) -> None:
    need = str(shop.parent / "need.yaml")
    kinds = ["--read-request", "read", "--write-request", "compose"]
    status, text = run(
        need, "--measure", str(shop), "--cores", "1,2,4", "--quick", *kinds, "--catalogue", MACHINES, "--json"
    )
    assert status == 0
    document = json.loads(text)
    assert document["writes"]["g"] < document["reads"]["g"], "inserts take longer"
    with pytest.raises(InputError, match="unknown request 'reed'"):
        run(need, "--measure", str(shop), "--again", "--read-request", "reed", "--catalogue", MACHINES)


@pytest.fixture
def pretended(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Opened, NodeMachine]]:
    machine = node_machine()
    counters: Any = NodeCounters(machine)
    tailor, _ = pretend_tailor(home.parent, machine, colocation=lambda: Colocation(counters, counters, counters))
    monkeypatch.setattr(framework.cli.plan, "opened", lambda: tailor)
    yield tailor, machine
    tailor.close()


def study_of(tailor: Opened, machine: NodeMachine) -> str:
    """A study whose best configuration has a larger cache, and takes a third less CPU time."""
    machine.scale = lambda configuration: 5.0 + 300.0 / float(str(configuration.get("cache.memory_mib", 64)))
    machine.rps = lambda configuration, cores: (
        cores * (60.0 if configuration.get("cache.memory_mib", 64) != 64 else 40.0)
    )
    request = TuneRequest(
        SMALL, rate_rps=50.0, iterations=6, repetitions=2, pairs=6, drift_every=0, minimal=0, only=("cache.memory_mib",)
    )
    return tailor.studies.run(tailor.studies.create(request).id, lambda event: None).id


def test_the_gain_of_tuning_by_the_cpu_time_of_the_verdict(pretended: tuple[Opened, NodeMachine]) -> None:
    tailor, machine = pretended
    study = study_of(tailor, machine)
    ratio = tailor.results.cpu_ratio(study)
    assert ratio.value == pytest.approx(40 / 60, rel=0.01)
    need = str(tailor.backends.home / "need.yaml")
    status, text = run(need, "--node", "16:4000,8:2000,4:1000", "--from", study[:15], "--catalogue", MACHINES, "--json")
    assert status == 0
    gain = json.loads(text)["gain"]
    assert gain["study"] == study
    assert not gain["measured"]
    assert gain["saving"] == pytest.approx(1 / 3, abs=0.1)
    assert gain["cpu_ratio"]["likely"] == pytest.approx(ratio.value)
    _, said = run(need, "--node", "16:4000,8:2000,4:1000", "--from", study, "--catalogue", MACHINES)
    assert f"tuning (study {study})" in " ".join(said.split())


def test_the_gain_of_tuning_by_sweeps_of_both(pretended: tuple[Opened, NodeMachine]) -> None:
    tailor, machine = pretended
    study = study_of(tailor, machine)
    words = [str(tailor.backends.home / "need.yaml"), "--catalogue", MACHINES, "--most-times", "16", "--json"]
    status, text = run(*words, "--measure", str(SMALL), "--cores", "1,2,4", "--from", study)
    assert status == 0
    document = json.loads(text)
    assert document["gain"]["measured"]
    assert document["gain"]["saving"] == pytest.approx(1 / 3, abs=0.1)
    assert document["arm"] == "tuned"
    plain = json.loads(run(*words, "--measure", str(SMALL), "--cores", "1,2,4")[1])
    assert plain["gain"] is None
    assert plain["plans"]["plans"][0]["cost_per_hour"] == pytest.approx(document["gain"]["default"]["cost_per_hour"])


def test_a_study_of_another_application_or_without_a_verdict_is_refused(
    pretended: tuple[Opened, NodeMachine], tmp_path: Path
) -> None:
    tailor, _ = pretended
    need = str(tailor.backends.home / "need.yaml")
    study = tailor.studies.create(TuneRequest(SMALL, rate_rps=50.0, iterations=1)).id
    with pytest.raises(FieldError, match=r"from_study: .*a study with a verdict"):
        run(need, "--node", "4:100", "--from", study)
    with pytest.raises(FieldError, match=r"from_study: .*a study that has found a best configuration"):
        run(need, "--measure", str(SMALL), "--from", study)
    other = tmp_path / "other"
    shutil.copytree(SMALL, other)
    with pytest.raises(FieldError, match=r"from_study: .*a study of small, not of small"):
        run(need, "--measure", str(other), "--from", study)
    with pytest.raises(NotFound):
        run(need, "--node", "4:100", "--from", "20010101")


def test_sweeps_of_another_application_than_the_study_are_refused(pretended: tuple[Opened, NodeMachine]) -> None:
    tailor, machine = pretended
    study = study_of(tailor, machine)
    need, home = str(tailor.backends.home / "need.yaml"), tailor.backends.home
    path = write_node(node_with(4, points=(NodePoint("default", "requests", 4, 0, 900.0, 910.0),)), home / "shop.json")
    with pytest.raises(FieldError, match=r"from_study: .*a study of shop, which was swept, not of small"):
        run(need, "--node-from", str(path), "--from", study, "--catalogue", MACHINES)


def test_the_seed_of_the_cases_is_not_that_of_the_sweeps(pretended: tuple[Opened, NodeMachine]) -> None:
    tailor, machine = pretended
    words = [str(tailor.backends.home / "need.yaml"), "--measure", str(SMALL), "--cores", "1", "--catalogue", MACHINES]
    run(*words)
    driven = len(machine.driven)
    run(*words, "--seed", "7")
    assert len(machine.driven) == driven


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "the node: found nothing; allowed: one of node, node_from and measure"),
        (["--node", "1:5", "--node-from", "x.json"], "found --node and --node-from"),
        (["--node", "1:5", "--quick"], "quick: allowed with measure"),
        (["--node", "1:5", "--cores", "1"], "cores: allowed with measure"),
        (["--node-from", "x.json", "--node-writes", "1:5"], "node_writes: allowed with node"),
        (["--measure", str(SMALL), "--cores", "1,two"], "cores: found '1,two'; allowed: whole numbers"),
        (["--measure", str(SMALL), "--cores", "0"], "cores: found '0'"),
        (["--measure", str(SMALL), "--limit", "5"], "--limit: found '5'"),
        (["--node-from", str(SMALL / "application.yaml")], "name: found 'name'; allowed: the keys kind, version"),
    ],
)
def test_what_cannot_be_asked_is_refused(words: list[str], says: str, home: Path) -> None:
    with pytest.raises((FieldError, FileError, InputError)) as caught:
        run(str(home.parent / "need.yaml"), *words)
    assert says in str(caught.value)


def test_the_newest_plans_are_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framework.capacity.records.MOST", 2)
    need = str(home.parent / "need.yaml")
    made = [
        json.loads(run(need, "--node", "8:4000", "--catalogue", MACHINES, "--draws", "100", "--json")[1])["plan"]
        for _ in range(3)
    ]
    assert list(PlanRecords(home).ids()) == [made[2], made[1]]


def test_plans_are_kept_and_come_back_as_they_were(home: Path) -> None:
    (home.parent / "need.yaml").write_text(
        NEED + "growth: {per_year: 50%, years: 2}\ncurrent: {machine: flexible-32, nodes: 4}\n"
    )
    for _ in range(2):
        status, _ = run(str(home.parent / "need.yaml"), "--node", "8:4000", "--catalogue", MACHINES, "--draws", "100")
        assert status == 0
    records = PlanRecords(home)
    newest, oldest = records.ids()
    answer = records.read(newest)
    assert answer.plans.need.name == "a shop"
    assert answer.plans.current is not None
    assert answer.plans.plans == records.read(oldest).plans.plans
    assert "What runs now" not in ENVIRONMENT.globals
    text = records.page_path(newest).read_text()
    assert "Now: 4 x flexible-32" in text
    with pytest.raises(NotFound, match="no plan 'x'"):
        records.read("x")
    (home / "plans" / oldest / "plan.json").write_text('{"kind": "plan", "version": 1, "plans": 5}')
    with pytest.raises(NotFound, match="cannot be read"):
        records.read(oldest)
