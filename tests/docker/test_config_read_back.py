"""Every parameter of the built-in servers is accepted at its bounds, and reads back, in real containers."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.compose import render
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.config.writing import to_yaml
from framework.model import Application, Deployment, ServiceType
from framework.model.agreement import agrees
from framework.testbeds.docker.compose_command import ComposeCommand
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.probes import NoAnswer, ask, parse
from optimizer.space import Configuration, Parameter, SearchSpace, Value

pytestmark = pytest.mark.docker

SERVERS = Path(__file__).parents[1] / "cases" / "good" / "servers"
PROJECT = "tailor-test-read-back"
CORES, MEMORY_MIB = 2, 8192


@pytest.fixture(scope="module")
def types() -> dict[str, ServiceType]:
    return resolved(load_service_types(), cores=CORES, memory_mib=MEMORY_MIB)


@pytest.fixture(scope="module")
def application() -> Application:
    return load_application(SERVERS)


@pytest.fixture(scope="module")
def space(application: Application, types: dict[str, ServiceType]) -> SearchSpace:
    return search_space(application, types, cores=CORES, memory_mib=MEMORY_MIB, allow_weaker=["synchronous_commit"])


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    compose = ComposeCommand.find()
    subprocess.run(
        [*compose.argv, "-p", PROJECT, "-f", str(tmp_path / "local.yaml"), "down", "-v", "-t", "0"],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip


def value_of(parameter: Parameter, round_: int) -> Value:
    """Return the value of a round.  Round 0: the default; 1: the low end; 2: the high end; choices take their turns."""
    if not parameter.ordered:
        return parameter.default if round_ == 0 else parameter.choices[round_ % len(parameter.choices)]
    low, high = parameter.low, parameter.high
    assert low is not None
    assert high is not None
    return (parameter.default, low, high)[min(round_, 2)]


def read_back(deployment: Deployment, directory: Path, patience_s: float = 60.0) -> list[str]:
    """Deploy; return the parameters that did not take effect in this time, and the services that did not answer."""
    for name, text in deployment.files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    (directory / "local.yaml").write_text(to_yaml(deployment.documents["local"]))
    ComposeCommand.find().up(PROJECT, directory / "local.yaml")
    engine = Engine()
    containers = {
        listed.service: (listed.id, next(iter(listed.addresses.values()), ""))
        for listed in engine.containers(f"com.docker.compose.project={PROJECT}")
    }
    wrong = []
    deadline = time.monotonic() + patience_s
    for wanted in deployment.expectations:
        container, address = containers[wanted.service]
        assert wanted.probe is not None
        while True:
            try:
                value: Value = parse(wanted.probe, ask(engine, container, address, wanted.probe), wanted.value)
            except NoAnswer as error:
                value = f"no answer: {error}; {engine.logs(container)}"
            # A server that starts may not answer yet, or another one before it: PostgreSQL's makes its files first.
            if agrees(wanted.value, value) or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        if not agrees(wanted.value, value):
            wrong.append(f"{wanted.service}.{wanted.parameter}: wanted {wanted.value!r}, found {value!r}")
    return wrong


@pytest.mark.parametrize("round_", [0, 1, 2])
def test_bounds_take_effect(
    round_: int, application: Application, types: dict[str, ServiceType], space: SearchSpace, directory: Path
) -> None:
    configuration = Configuration({parameter.name: value_of(parameter, round_) for parameter in space.parameters})
    deployment = render(application, types, configuration, project=PROJECT, labels={"tailor.test": "read-back"})
    assert len(deployment.expectations) == len(space)
    assert read_back(deployment, directory) == []


@pytest.mark.parametrize("policy", load_service_types()["redis"].parameters[1].choices)
def test_eviction_policies_take_effect(
    policy: str, application: Application, types: dict[str, ServiceType], directory: Path
) -> None:
    configuration = Configuration({"redis.maxmemory_policy": policy, "redis.maxmemory_mib": 64})
    whole = render(application, types, configuration, project=PROJECT, labels={})
    document = {"services": {"redis": whole.documents["local"]["services"]["redis"]}}
    expectations = tuple(expectation for expectation in whole.expectations if expectation.service == "redis")
    assert (
        read_back(replace(whole, documents={"local": document}, files={}, expectations=expectations), directory) == []
    )


def test_a_value_that_did_not_take_effect_is_found(
    application: Application, types: dict[str, ServiceType], directory: Path
) -> None:
    whole = render(application, types, Configuration(), project=PROJECT, labels={})
    document = {"services": {"memcached": whole.documents["local"]["services"]["memcached"]}}
    expectations = tuple(replace(e, value=7) for e in whole.expectations if e.service == "memcached")
    only = replace(whole, documents={"local": document}, files={}, expectations=expectations)
    wrong = read_back(only, directory, patience_s=10.0)
    assert len(wrong) == len(types["memcached"].parameters)
    assert "memcached.threads: wanted 7, found 4" in wrong


def test_ready_and_statistics(application: Application, types: dict[str, ServiceType], directory: Path) -> None:
    deployment = render(application, types, Configuration(), project=PROJECT, labels={})
    assert read_back(deployment, directory) == []
    engine = Engine()
    for listed in engine.containers(f"com.docker.compose.project={PROJECT}"):
        service_type = deployment.types[listed.service]
        address = next(iter(listed.addresses.values()))
        assert service_type.ready is not None
        assert parse(service_type.ready, ask(engine, listed.id, address, service_type.ready), "")
        for name, probe in service_type.statistics.items():
            number = parse(probe, ask(engine, listed.id, address, probe), 0)
            assert isinstance(number, int), (listed.service, name, number)
