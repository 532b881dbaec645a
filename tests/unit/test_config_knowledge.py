"""The knowledge base: its own files keep its rules, and bounds become numbers on a host."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.knowledge import (
    available,
    built_in_directory,
    image_version,
    load_service_type,
    load_service_types,
    resolved,
)
from framework.errors import FileError, InputError
from framework.model import ParameterDefinition

TYPES = load_service_types()
PARAMETERS = [(name, parameter) for name, loaded in TYPES.items() for parameter in loaded.parameters]

RUNTIMES = {"jvm", "spring-boot", "node", "go", "python-gunicorn", "python-uvicorn", "celery", "puma", "dotnet"}
"""Types of programs that people write: the tag of such an image is the program's version, not the runtime's."""

OURS = {"go-service", "key-value", "xapian-search"}
"""Types of servers of this repository, which have no versions."""

ENVIRONMENT_LIST = """
kind: service-type
version: 1
name: cachet
description: a cache
parameters:
  heap_mib:
    description: heap, which two versions of the server call by two names
    kind: integer
    low: 1
    high: 9
    default: 4
    role: cache_bytes
    source: "cachet(1)"
    apply: {environment: [HEAP, CACHET_HEAP]}
    read_back: {command: [cachet], pattern: "(\\\\d+)"}
"""


MEASURED = {"nginx", "memcached", "redis", "postgresql", "go-service", "jaeger", "key-value", "xapian-search"}
NOT_MEASURED = {
    "mongodb", "mysql", "mariadb", "pgbouncer", "valkey", "haproxy", "envoy", "traefik", "httpd", "php-fpm",
    "openresty", "rabbitmq", "kafka", "elasticsearch", "opensearch",
}  # fmt: skip


def test_built_in_types() -> None:
    assert {name for name, loaded in TYPES.items() if loaded.measured} == MEASURED
    assert {name for name, loaded in TYPES.items() if not loaded.measured} == NOT_MEASURED | RUNTIMES
    assert TYPES["jaeger"].parameters == ()


@pytest.mark.parametrize("name", sorted(set(TYPES) - {"jaeger"}))
def test_five_to_seven_parameters(name: str) -> None:
    """Of its own, for a type that builds on another."""
    kind = TYPES[name]
    below = {parameter.name for parameter in TYPES[kind.builds_on].parameters} if kind.builds_on else set()
    fewer = {
        "go": 3,
        "celery": 4,
        "opensearch": 0,
        "openresty": 0,
        "valkey": 0,
        "xapian-search": 4,
    }  # there are no more that change anything
    assert fewer.get(name, 5) <= len([parameter for parameter in kind.parameters if parameter.name not in below]) <= 7


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS, ids=[f"{n}.{p.name}" for n, p in PARAMETERS])
def test_each_parameter_says_where_it_comes_from(name: str, parameter: ParameterDefinition) -> None:
    assert "default" in parameter.source or "absent" in parameter.source or name == "go-service"
    assert parameter.description.endswith(".")
    assert bool(parameter.versions) == (name not in RUNTIMES | OURS)


@settings(deadline=None)
@given(st.integers(1, 512), st.integers(128, 4_000_000))
def test_every_default_lies_in_its_range_on_any_host(cores: int, memory_mib: int) -> None:
    for loaded in resolved(TYPES, cores=cores, memory_mib=memory_mib).values():
        for parameter in loaded.parameters:
            if parameter.kind in ("integer", "real"):
                assert not isinstance(parameter.default, str)
                assert not isinstance(parameter.low, str)
                assert not isinstance(parameter.high, str)
                assert parameter.low is not None
                assert parameter.high is not None
                assert parameter.low <= parameter.high
                inside = parameter.low <= parameter.default <= parameter.high
                assert inside or parameter.default in parameter.special
                if parameter.kind == "integer":
                    assert all(isinstance(n, int) for n in (parameter.low, parameter.default, parameter.high))


def test_resolving_moves_bounds_and_never_defaults() -> None:
    memcached = TYPES["memcached"]
    memory = replace(memcached.parameters[0], low="host.cores * 0.4", high="host.memory_mib * 0.25", default=64)
    changed = {"memcached": replace(memcached, parameters=(memory,))}
    (large,) = resolved(changed, cores=4, memory_mib=1001)["memcached"].parameters
    assert (large.low, large.high, large.default) == (2, 250, 64)
    (small,) = resolved(changed, cores=4, memory_mib=100)["memcached"].parameters
    assert (small.low, small.high, small.default) == (2, 64, 64)
    assert resolved(resolved(changed, cores=4, memory_mib=1001), cores=1, memory_mib=8)["memcached"].parameters == (
        large,
    )


def test_a_log_scale_needs_a_low_above_zero_on_this_host() -> None:
    memcached = TYPES["memcached"]
    memory = replace(memcached.parameters[0], low="host.cores - 1")
    with pytest.raises(InputError, match=r"memcached.memory_mib: low is 0 on this host"):
        resolved({"memcached": replace(memcached, parameters=(memory,))}, cores=1, memory_mib=1000)


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("redis:7.0", (7, 0)), ("registry.example:5000/team/redis:7.0.15-alpine", (7, 0, 15)), ("redis", None),
        ("redis:latest", None), ("registry.example:5000/redis", None), ("redis:6@sha256:abc", (6,)), ("x:v2.1", (2, 1)),
        ("postgres:15", (15,)), ("", None),
    ],
)  # fmt: skip
def test_image_version(image: str, version: tuple[int, ...] | None) -> None:
    assert image_version(image) == version


def test_only_parameters_of_the_image_s_version() -> None:
    def names(image: str, kind: str = "redis") -> set[str]:
        return {parameter.name for parameter in available(TYPES[kind], image)}

    everything = {parameter.name for parameter in TYPES["redis"].parameters}
    assert names("redis:7.0") == names("redis:7") == names("redis:latest") == everything
    assert names("redis:6.2") == everything - {"zset_max_listpack_entries"}
    assert names("redis:5") == everything - {"zset_max_listpack_entries", "io_threads"}
    assert "service_executor" in names("mongo:4.4", "mongodb")
    assert "service_executor" not in names("mongo:5.0", "mongodb")


def test_more_directories(tmp_path: Path) -> None:
    (tmp_path / "cachet.yaml").write_text(ENVIRONMENT_LIST)
    types = load_service_types([tmp_path])
    assert set(types) == {*TYPES, "cachet"}
    assert types["cachet"].parameters[0].apply.name == "HEAP CACHET_HEAP"


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    (tmp_path / "redis.yaml").write_text((built_in_directory() / "redis.yaml").read_text())
    with pytest.raises(
        FileError, match=r"name: found 'redis'; allowed: a name that .*redis.yaml does not have already"
    ):
        load_service_types([tmp_path])


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such directory"):
        load_service_types([tmp_path / "missing"])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        load_service_type(tmp_path / "missing.yaml")


def test_go_parameters_are_those_that_the_services_read_and_show() -> None:
    source = (Path(__file__).parents[2] / "apps" / "common" / "service" / "parameters.go").read_text()
    names = set(re.findall(r'^\t\w+ += "([A-Z_]+)"$', source, re.MULTILINE))
    assert names
    inherited = TYPES["go"].parameters[-1]
    assert inherited.name == "memory_limit_mib"
    for parameter in TYPES["go-service"].parameters:
        if parameter == inherited:
            continue
        assert parameter.apply.name in names
        assert parameter.read_back is not None
        answer = f'{{"A_{parameter.apply.name}":1,"{parameter.apply.name}":250}}'
        assert parameter.read_back is not None
        assert re.findall(parameter.read_back.pattern, answer) == ["250"]
