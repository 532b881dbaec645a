"""Any configuration renders; the default renders as the user's own document, and nothing of it is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.compose import difference, render
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.errors import InputError, UnknownName
from framework.model import Application, Apply, Deployment, ParameterDefinition, Placement, Probe, ServiceType
from optimizer.space import Configuration, Value

GOOD = Path(__file__).parents[1] / "cases" / "good"
RAW = load_service_types()
TYPES = resolved(RAW, cores=4, memory_mib=8192)
SHOP = load_application(GOOD / "shop")
SPACE = search_space(SHOP, TYPES, cores=4, memory_mib=8192, allow_weaker=["synchronous_commit"])
CONFIGURATIONS = st.lists(st.floats(0, 1), min_size=len(SPACE), max_size=len(SPACE)).map(
    lambda units: Configuration(
        {name: parameter.from_unit(unit) for (name, parameter), unit in zip(SPACE.items(), units, strict=True)}
    )
)


def shop(
    configuration: Mapping[str, Value] | None = None, application: Application = SHOP, **options: Any
) -> Deployment:
    labels = options.pop("labels", {"tailor.trial": "1"})
    return render(application, TYPES, Configuration(configuration or {}), project="p", labels=labels, **options)


def entry(deployment: Deployment, service: str) -> Any:
    return deployment.documents["local"]["services"][service]


def changed(service: str, **content: Any) -> Application:
    """Return the shop with some keys of one compose service replaced; None removes a key."""
    services = dict(SHOP.compose["services"])
    services[service] = {key: value for key, value in {**services[service], **content}.items() if value is not None}
    return replace(SHOP, compose={**SHOP.compose, "services": services})


def typed(parameter_apply: Apply, **fixed: Value) -> tuple[Application, dict[str, ServiceType]]:
    """Return the shop with one parameter for its cache, applied in the given way, and its types."""
    parameter = ParameterDefinition(
        "size", "integer", 4, parameter_apply, Probe("command", "(x)"), "inert", low=1, high=9
    )
    types = {**TYPES, "memcached": replace(TYPES["memcached"], parameters=(parameter,))}
    services = [replace(service, fixed=fixed) if service.type == "memcached" else service for service in SHOP.services]
    return replace(SHOP, services=tuple(services)), types


# --------------------------------------------------------------------------- the default


def test_the_default_is_the_users_document_with_labels() -> None:
    untouched = replace(
        SHOP, services=tuple(replace(s, fixed={}) if s.name == "sessions" else s for s in SHOP.services)
    )
    deployment = render(untouched, TYPES, SPACE.default(), project="p", labels={"tailor.trial": "1"})
    (host, document), *others = deployment.documents.items()
    assert (host, others) == ("local", [])
    wanted = json.loads(json.dumps(SHOP.compose))
    for service in wanted["services"].values():
        given = service.get("labels")
        service["labels"] = [*given, "tailor.trial=1"] if given else {"tailor.trial": "1"}
    web, database = wanted["services"]["web"], wanted["services"]["orders-db"]
    web["volumes"] = [
        "./files/web/etc-nginx-nginx.conf:/etc/nginx/nginx.conf:ro",
        f"{SHOP.directory}/nginx/static:/usr/share/nginx/html:ro",
    ]
    database["volumes"][1]["source"] = f"{SHOP.directory}/init"
    wanted["services"]["seed"]["env_file"] = f"{SHOP.directory}/seed.env"
    assert document == wanted
    assert deployment.files == {"files/web/etc-nginx-nginx.conf": (SHOP.directory / "nginx" / "nginx.conf").read_text()}


def test_rendering_changes_nothing_that_it_was_given() -> None:
    before = json.dumps(SHOP.compose)
    shop({"web.worker_processes": 1, "orders.gc_percent": 50, "orders-cache.memory_mib": 99})
    assert json.dumps(SHOP.compose) == before


# --------------------------------------------------------------------------- any configuration


@settings(deadline=None, max_examples=60)
@given(CONFIGURATIONS)
def test_any_configuration_renders_with_its_values_in_it(configuration: Configuration) -> None:
    deployment = shop(configuration, SHOP)
    expected = {f"{e.service}.{e.parameter}": e.value for e in deployment.expectations}
    assert {name: expected[name] for name in configuration} == dict(configuration)
    default = SPACE.default()
    for name, value in configuration.items():
        service, parameter = name.rsplit(".", 1)
        words = json.dumps(entry(deployment, service)) + "".join(
            text for path, text in deployment.files.items() if path.startswith(f"files/{service}/")
        )
        if value != default[name] and not isinstance(value, bool):
            assert f"{value:.10g}" in words if isinstance(value, float) else str(value) in words, name
        definition = next(p for p in TYPES[type_of(service)].parameters if p.name == parameter)
        if definition.apply.kind == "environment":
            given = entry(deployment, service)["environment"].get(definition.apply.name)
            assert given == (None if value == default[name] else str(value))
    assert (difference(shop(default), deployment) == "") == (configuration == default)


def type_of(service: str) -> str:
    return next(s.type for s in SHOP.services if s.name == service)


@settings(deadline=None, max_examples=20)
@given(CONFIGURATIONS)
def test_rendering_is_deterministic(configuration: Configuration) -> None:
    shuffled = Configuration({name: configuration[name] for name in reversed(list(configuration))})
    first, second = shop(configuration), shop(shuffled)
    assert json.dumps(first.documents) == json.dumps(second.documents)
    assert list(first.files.items()) == list(second.files.items())
    assert first.expectations == second.expectations


# --------------------------------------------------------------------------- what is read back


def test_every_parameter_of_a_tuned_service_is_read_back() -> None:
    expected = {f"{e.service}.{e.parameter}": e.value for e in shop({"orders-cache.threads": 2}).expectations}
    assert expected["orders-cache.threads"] == 2
    assert expected["orders-cache.memory_mib"] == 64, "a default too"
    assert expected["orders-db.synchronous_commit"] is True, "and what is not tuned because it weakens something"
    assert expected["sessions.maxmemory_policy"] == "allkeys-lru", "and what the application holds at a value"
    assert "orders.fanout_workers" not in expected, "not what it leaves alone"
    assert not any(name.startswith("mailer.") for name in expected), "nor an untuned service"


# --------------------------------------------------------------------------- each way to apply


@pytest.mark.parametrize(
    ("content", "command"),
    [
        ({}, ["memcached", "-m", "128"]),
        ({"command": "memcached -v"}, ["memcached", "-v", "-m", "128"]),
        ({"command": ["memcached", "-o", "a b"]}, ["memcached", "-o", "a b", "-m", "128"]),
        ({"command": []}, ["-m", "128"]),
        ({"entrypoint": ["memcached", "-v"]}, ["-m", "128"]),
        ({"command": "memcached -l $$HOST '${X:-1 2}'"}, ["memcached", "-l", "$$HOST", "${X:-1 2}", "-m", "128"]),
    ],
)
def test_flags_follow_the_users_command(content: dict[str, Any], command: list[str]) -> None:
    assert (
        entry(shop({"orders-cache.memory_mib": 128}, changed("orders-cache", **content)), "orders-cache")["command"]
        == command
    )


def test_flags_follow_a_shell_line_where_they_reach_the_server() -> None:
    application = changed("orders-cache", command=["sh", "-c", "exec memcached"])
    command = entry(shop({"orders-cache.memory_mib": 128}, application), "orders-cache")["command"]
    assert command == ["sh", "-c", "exec memcached -m 128"]
    piped = changed("orders-cache", command=["sh", "-c", "memcached | tee log"])
    with pytest.raises(InputError, match="cannot be appended to the command: it is a line that pipes its output"):
        shop({"orders-cache.memory_mib": 128}, piped)


@pytest.mark.parametrize("given", [None, {"A": "1"}, ["A=1"]])
def test_environment_keeps_its_form(given: Any) -> None:
    environment = entry(shop({"orders.gc_percent": 50}, changed("orders", environment=given)), "orders")["environment"]
    assert environment == (["A=1", "GOGC=50"] if isinstance(given, list) else {**(given or {}), "GOGC": "50"})


def test_one_parameter_under_several_names() -> None:
    application, types = typed(Apply("environment", name="A B", template="{value}$x"))
    deployment = render(application, types, Configuration({"orders-cache.size": 7}), project="p", labels={})
    assert entry(deployment, "orders-cache")["environment"] == {"A": "7$$x", "B": "7$$x"}, "$ is escaped for compose"


def test_resources_and_live_commands() -> None:
    application, types = typed(Apply("resource", name="deploy.resources.limits.cpus", template="{value}"))
    deployment = render(application, types, Configuration({"orders-cache.size": 7}), project="p", labels={})
    assert entry(deployment, "orders-cache")["deploy"] == {"resources": {"limits": {"cpus": "7"}}}
    application, types = typed(Apply("live", template="cachet set 'the size' {value}", words={"7": "seven of"}))
    deployment = render(application, types, Configuration({"orders-cache.size": 7}), project="p", labels={})
    assert deployment.live == (("orders-cache", ("cachet", "set", "the size", "seven of")),)
    assert render(application, types, Configuration(), project="p", labels={}).live == ()


# --------------------------------------------------------------------------- what does not fit


@pytest.mark.parametrize(
    ("service", "content", "says"),
    [
        (
            "orders-cache",
            {"command": "memcached -m 1024"},
            r"sets -m itself, which is the parameter memory_mib \(default 64\)",
        ),
        ("orders", {"environment": {"GOGC": "200"}}, "sets GOGC itself, which is the parameter gc_percent"),
        ("orders", {"environment": ["GOGC=200"]}, "sets GOGC itself"),
        ("orders-db", {"command": ["postgres", "-c", "jit=off"]}, "sets jit=off itself, which is the parameter jit"),
    ],
)
def test_a_file_that_sets_a_parameter_itself(service: str, content: dict[str, Any], says: str) -> None:
    application = changed(service, **content)
    with pytest.raises(InputError, match=f"{service}: the compose file {says}"):
        shop({}, application)
    parameter = {"orders-cache": "memory_mib", "orders": "gc_percent", "orders-db": "jit"}[service]
    left_alone = [
        replace(s, fixed={**s.fixed, parameter: "default"}) if s.name == service else s for s in SHOP.services
    ]
    deployment = shop({}, replace(application, services=tuple(left_alone)))
    assert entry(deployment, service) == {**entry(shop(), service), **content}, "the user's own setting stands"
    assert f"{service}.{parameter}" not in {f"{e.service}.{e.parameter}" for e in deployment.expectations}


def test_the_other_flags_of_a_server_are_no_conflict() -> None:
    application = changed("sessions", command="redis-server --maxmemory-clients 1g")
    assert entry(shop({"sessions.maxmemory_mib": 64}, application), "sessions")["command"][-2:] == [
        "--maxmemory-policy", "allkeys-lru",
    ]  # fmt: skip


def test_a_fixed_value_is_written_whatever_the_file_says() -> None:
    services = [replace(s, fixed={"memory_mib": 256}) if s.name == "orders-cache" else s for s in SHOP.services]
    application = replace(changed("orders-cache", command="memcached -m 1024"), services=tuple(services))
    assert entry(shop({}, application), "orders-cache")["command"] == ["memcached", "-m", "256"]
    wrong = [replace(s, fixed={"memory_mib": "much"}) if s.name == "orders-cache" else s for s in SHOP.services]
    with pytest.raises(
        InputError, match=r"orders-cache: fixed.memory_mib: found 'much'; allowed: a value of kind integer"
    ):
        shop({}, replace(SHOP, services=tuple(wrong)))


def test_parameters_that_are_not_tuned() -> None:
    for name in ("orders.gc", "mailer.gc_percent", "orders.fanout_workers", "sessions.maxmemory_policy", "x"):
        with pytest.raises(UnknownName, match=name):
            shop({name: 1})


def test_types_must_be_resolved() -> None:
    with pytest.raises(InputError, match=r"web.worker_processes: the default is still the expression 'host.cores'"):
        render(SHOP, RAW, Configuration(), project="p", labels={})


# --------------------------------------------------------------------------- CPU sets


def test_a_cpu_set_and_its_own_defaults() -> None:
    placement = Placement({service.name: "local" for service in SHOP.services}, {"orders": "0-1"})
    orders = entry(shop({}, placement=placement), "orders")
    assert orders["cpuset"] == "0-1"
    assert orders["environment"]["GOMAXPROCS"] == "4", (
        "what a host's default is, is no default on fewer CPUs: written out"
    )
    assert "cpuset" not in entry(shop({}, placement=placement), "mailer")


def test_an_application_that_moved_renders_the_same(tmp_path: Path) -> None:
    moved = load_application(shutil.copytree(GOOD / "shop", tmp_path / "elsewhere"))
    there = json.dumps(shop({}, moved).documents).replace(str(moved.directory), str(SHOP.directory))
    assert there == json.dumps(shop({}).documents)
