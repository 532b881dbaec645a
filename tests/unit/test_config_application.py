"""Good applications: the data that they are loaded as."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from framework.config.application import load_application
from framework.config.document import read_document
from framework.config.knowledge import load_service_types
from framework.config.space import parameters_of
from framework.errors import FileError
from framework.model import ExternalLoad, Hook, Limits, Service, Term
from framework.ports.compose import ResolvedCompose

ROOT = Path(__file__).parents[2]
GOOD = ROOT / "tests" / "cases" / "good"
APPLICATIONS = sorted([*GOOD.glob("*/application.yaml"), *(ROOT / "apps").glob("*/application.yaml")])


@pytest.mark.parametrize("path", APPLICATIONS, ids=lambda path: path.parent.name)
def test_every_good_application_loads(path: Path) -> None:
    application = load_application(path.parent)
    assert application == load_application(path)
    assert {service.name for service in application.services} == set(application.compose["services"])
    assert application.entry in application.compose["services"]


@pytest.mark.parametrize("path", APPLICATIONS, ids=lambda path: path.parent.name)
def test_types_and_fixed_parameters_of_good_applications_exist(path: Path) -> None:
    application = load_application(path)
    own = path.parent / "search_spaces"
    types = load_service_types([own] if own.is_dir() else [])
    for service in application.services:
        parameters_of(application, types, service)


def test_everything_that_an_application_says() -> None:
    shop = load_application(GOOD / "shop")
    assert shop.hosts == ("frontend", "logic", "backend", "monitoring")
    services = {service.name: service for service in shop.services}
    assert services["orders"] == Service(
        "orders", "go-service", "logic", True, {"memory_limit_mib": "default", "fanout_workers": "default"}
    )
    assert services["seed"] == Service("seed", "", "frontend", tuned=False), "not listed: untuned, on the first host"
    assert shop.objective.terms == (Term("p95", 0.8), Term("p50", 0.2), Term("throughput", -0.01))
    assert shop.hooks.seed == Hook("seed", (), 60.0)
    assert shop.hooks.check_after == Hook("seed", ("verify",))
    assert shop.hooks.prepare is None
    assert shop.limits == Limits(errors=0.002)
    assert shop.tracing is not None
    assert shop.tracing.counters == {"port": 9100, "path": "/spans"}
    assert shop.tracing.peers == {"^mc_": "orders-cache"}
    assert shop.entry == "web"
    assert shop.workload.document["kind"] == "workload"
    assert shop.workload.document["variables"]["colour"] == {"choice": ["red", "on", 7]}
    assert shop.compose["services"]["mailer"]["image"] == "example/shop:1", "merge keys are resolved"


def test_data_that_services_write_are_no_part_of_the_application(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(GOOD / "small", copy)
    compose = copy / "compose.yaml"
    document = read_document(compose).data
    service = next(iter(document["services"].values()))
    service["volumes"] = ["./data:/data", {"type": "bind", "source": "./more", "target": "/m"}, "./conf:/conf:ro"]
    compose.write_text(json.dumps(document))
    for name in ("data", "more", "conf"):
        (copy / name).mkdir()
        (copy / name / "file").write_text("1")
    before = load_application(copy).content_hash
    for name in ("data", "more"):
        (copy / name / "file").write_text("2")
    assert load_application(copy).content_hash == before, "the user's stack runs on during a study"
    (copy / "conf" / "file").write_text("2")
    assert load_application(copy).content_hash != before


def test_content_hash_names_the_content_and_nothing_else(tmp_path: Path) -> None:
    first = shutil.copytree(GOOD / "small", tmp_path / "first")
    second = shutil.copytree(GOOD / "small", tmp_path / "second")
    (second / ".git").mkdir()
    (second / ".git" / "HEAD").write_text("x")
    original = load_application(first).content_hash
    assert load_application(second).content_hash == original
    (second / "data.sql").write_text("a")
    more = load_application(second).content_hash
    (second / "data.sql").rename(second / "date.sql")
    renamed = load_application(second).content_hash
    assert len({original, more, renamed}) == 3


def test_files_that_compose_reads_besides_are_content_too(tmp_path: Path) -> None:
    """A path with two dots names the same application as one without."""
    shutil.copytree(GOOD / "small", tmp_path / "first")
    plain = load_application(tmp_path / "first").content_hash
    reader = SimpleNamespace(
        resolve=lambda source: ResolvedCompose(read_document(tmp_path / "first" / "compose.yaml").data)
    )
    (tmp_path / "first" / ".env").write_text("TAG=1\n")
    first = load_application(tmp_path / "first", reader).content_hash
    assert load_application(tmp_path / "first" / ".." / "first", reader).content_hash == first
    (tmp_path / "first" / ".env").write_text("TAG=2\n")
    assert len({plain, first, load_application(tmp_path / "first", reader).content_hash}) == 3


def test_what_services_write_outside_of_the_directory_is_no_content(tmp_path: Path) -> None:
    shutil.copytree(GOOD / "small", tmp_path / "shop" / "tailor")
    (tmp_path / "shop" / "tailor" / "compose.yaml").rename(tmp_path / "shop" / "compose.yaml")
    for directory in ("shop/data", "shop/conf"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "file").write_text("1")
    document = read_document(tmp_path / "shop" / "compose.yaml").data
    next(iter(document["services"].values()))["volumes"] = ["./data:/data", "./conf:/conf:ro"]
    (tmp_path / "shop" / "compose.yaml").write_text(json.dumps(document))
    file = tmp_path / "shop" / "tailor" / "application.yaml"
    file.write_text(file.read_text() + "compose: ../compose.yaml\n")
    before = load_application(file.parent).content_hash
    (tmp_path / "shop" / "data" / "file").write_text("2")
    assert load_application(file.parent).content_hash == before
    (tmp_path / "shop" / "conf" / "file").write_text("2")
    assert load_application(file.parent).content_hash != before


def test_no_application_in_a_directory(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        load_application(tmp_path)


def test_a_load_generator_of_somebody_else() -> None:
    """It sends no root spans, so that traces cannot give the latencies, though the application has tracing."""
    application = load_application(GOOD / "k6")
    assert application.generator == "k6"
    assert application.external == ExternalLoad("grafana/k6:0.54.0", "load/load.js", (), "/", 20)
    assert application.workload.document == {}
    assert (application.loop, application.traced) == ("open", False)
    assert application.tracing is not None
    assert (load_application(GOOD / "small").loop, load_application(GOOD / "small").traced) == ("open", True)
