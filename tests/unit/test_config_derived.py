"""Equations and derived parameters from an application's file and a service type to what runs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from framework.compose import render
from framework.config.application import load_application
from framework.config.configuration_file import load_configuration
from framework.config.document import read_document
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import along_the_path, search_space
from framework.errors import FileError, InputError, UnknownName
from framework.model import Application, ServiceType, Study, StudyPlan, StudyState
from framework.placement.domains import cpu_sets
from framework.placement.space import with_placement
from framework.report.changes import changes
from framework.report.export import export
from framework.report.recommendation import recommended
from framework.testing.pretend import MACHINE
from optimizer.space import LinearEquality, Predicate, SearchSpace

SHOP = Path(__file__).parents[1] / "cases" / "good" / "shop"
TYPES = load_service_types()
EQUATION = "{orders-cache.threads} + {sessions.io_threads} == 5"
DERIVED = {"orders-cache.connections": "1000 + 6 * {orders-cache.threads}"}


def shop(constraints: tuple[str, ...] = (EQUATION,), derived: Mapping[str, str] = DERIVED) -> Application:
    return replace(
        load_application(SHOP), constraints=tuple(Predicate(text) for text in constraints), derived=dict(derived)
    )


def space(application: Application, types: Mapping[str, ServiceType] = TYPES, **chosen: list[str]) -> SearchSpace:
    return search_space(application, types, cores=4, memory_mib=8192, **chosen)


def test_the_space_has_the_equation_and_the_derived_parameter() -> None:
    whole = space(shop())
    assert whole.dependents.texts == {
        "sessions.io_threads": "orders-cache.threads + sessions.io_threads = 5",
        "orders-cache.connections": "1000 + 6 * {orders-cache.threads}",
    }
    assert {"orders-cache.connections", "sessions.io_threads"}.isdisjoint(whole.names)
    moved = whole.from_default({"orders-cache.threads": 2})
    assert (moved["sessions.io_threads"], moved["orders-cache.connections"]) == (3, 1012)
    assert along_the_path(whole, []).dependents.texts == whole.dependents.texts
    placed = with_placement(whole, cpu_sets(["0-1", "2-3"]), None)
    assert placed.dependents.texts == whole.dependents.texts
    assert "sessions.cpuset" in placed


def test_a_part_of_the_application_keeps_them_with_what_is_fixed() -> None:
    part = space(shop(), only=["orders-cache"])
    assert "orders-cache.threads" not in part, (
        "the other side of the equation is not tuned, so nothing is left to choose"
    )
    assert part.default()["orders-cache.connections"] == 1024
    with pytest.raises(InputError, match=r"orders-cache.connections follows from 1000 \+ 6 \* {orders-cache.threads}"):
        space(shop(), only=["orders-cache.connections"])


def test_what_is_fixed_is_put_into_the_equation() -> None:
    application = shop(("{orders-cache.threads} + {sessions.io_threads} + {web.worker_processes} == 9",), {})
    services = tuple(
        replace(service, fixed={**service.fixed, "worker_processes": 4}) if service.name == "web" else service
        for service in application.services
    )
    [equation] = space(replace(application, services=services)).constraints
    assert isinstance(equation, LinearEquality)
    assert (dict(equation.coefficients), equation.total) == ({"orders-cache.threads": 1, "sessions.io_threads": 1}, 5)


def test_other_comparisons_stay_as_they_are() -> None:
    texts = ("{web.multi_accept} == {web.multi_accept}", "{orders-cache.threads} % 2 == 0")
    assert [str(constraint) for constraint in space(shop(texts, {})).constraints] == list(texts)


def test_values_are_rendered_like_any_other() -> None:
    application, types = shop(), resolved(TYPES, cores=4, memory_mib=8192)
    configuration = space(application).from_default({"orders-cache.threads": 2})
    deployment = render(application, types, configuration, project="shop", labels={})
    command = str(deployment.documents["local"]["services"]["orders-cache"]["command"])
    assert "1012" in command
    assert any(e.service == "orders-cache" and e.value == 1012 for e in deployment.expectations)


def test_a_service_type_derives_for_every_service_of_it() -> None:
    [*parameters] = TYPES["memcached"].parameters
    at = next(number for number, parameter in enumerate(parameters) if parameter.name == "connections")
    parameters[at] = replace(parameters[at], derived="256 * {threads}")
    types = {**TYPES, "memcached": replace(TYPES["memcached"], parameters=tuple(parameters))}
    whole = space(shop((), {}), types)
    assert whole.dependents.texts == {"orders-cache.connections": "256 * {orders-cache.threads}"}
    assert whole.default()["orders-cache.connections"] == 1024
    own = space(shop((), {"orders-cache.connections": "1024 * {orders-cache.threads} / 4"}), types)
    assert own.dependents.texts == {"orders-cache.connections": "1024 * {orders-cache.threads} / 4"}
    services = tuple(
        replace(service, fixed={"connections": 2048}) if service.name == "orders-cache" else service
        for service in load_application(SHOP).services
    )
    assert space(replace(shop((), {}), services=services), types).dependents.texts == {}


def test_a_report_marks_them_and_an_export_says_why(tmp_path: Path) -> None:
    application, types = shop(), resolved(TYPES, cores=4, memory_mib=8192)
    whole = space(application)
    best, texts = whole.from_default({"orders-cache.threads": 2}), whole.dependents.texts
    made = changes(whole.default(), best, application, types, texts)
    assert {change.parameter: bool(change.follows) for change in made} == {
        "threads": False, "io_threads": True, "connections": True,
    }  # fmt: skip
    plan = StudyPlan(
        "shop", "random", {}, iterations=1, repetitions=1, warmup_s=1.0, window_s=1.0, rate_rps=1.0, seed=1, pairs=1
    )
    study = Study("s1", "now", StudyState.CREATED, plan, "0", whole.to_dict(), MACHINE, {}, "pretend")
    lines = [line.label for line in recommended(study, made)]
    assert lines == ["threads", "io_threads (derived)", "connections (derived)"], "what follows comes last"
    export(application, types, whole.default(), best, "s", tmp_path / "best", texts)
    path = tmp_path / "best" / "configuration.yaml"
    written = read_document(path).data
    assert written["values"]["orders-cache.connections"] == 1012
    assert written["sources"]["orders-cache.connections"] == "derived: 1000 + 6 * {orders-cache.threads}"
    assert load_configuration(path, whole) == best
    path.write_text(path.read_text().replace("1012", "1013"))
    with pytest.raises(FileError, match=r"orders-cache\.connections: found 1013; allowed: 1012, which follows from"):
        load_configuration(path, whole)


@pytest.mark.parametrize(
    ("constraints", "derived", "words"),
    [
        ((), {"orders-cache.conections": "{orders-cache.threads}"}, "'orders-cache.conections'"),
        ((), {"orders-cache.connections": "{orders-cache.treads}"}, "'orders-cache.treads'"),
        ((), {"orders-db.synchronous_commit": "{orders-cache.threads}"}, "it weakens durability"),
        ((), {"orders-db.jit": "{orders-cache.threads}"}, "cannot be derived"),
        ((), {"sessions.maxmemory_policy": "{orders-cache.threads}"}, "it is fixed"),
        ((), {"orders-cache.connections": "{orders-cache.threads}"}, "default configuration gives it 4"),
        (("{orders-cache.threads} + {sessions.io_threads} == 6",), {}, "it adds up to 5"),
        ((EQUATION, "{orders-cache.threads} == {web.worker_processes}"), {}, "is also in"),
    ],
)
def test_errors_name_the_parameter(constraints: tuple[str, ...], derived: dict[str, str], words: str) -> None:
    with pytest.raises((InputError, UnknownName), match=words):
        space(shop(constraints, derived))


def test_a_file_says_it(tmp_path: Path) -> None:
    shutil.copytree(SHOP, tmp_path / "shop")
    path = tmp_path / "shop" / "application.yaml"
    text = "derived:\n  orders-cache.connections: 1000 + 6 * {orders-cache.threads}\n"
    path.write_text(f"{path.read_text()}\nconstraints: ['{EQUATION}']\n{text}")
    assert space(load_application(path)).dependents.texts == space(shop()).dependents.texts
