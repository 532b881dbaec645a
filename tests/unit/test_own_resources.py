"""Parameters that compose gives a service (CPUs, memory, replicas), and how own parameters are read back."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from framework.errors import ParameterNotApplied
from framework.model import Container, Deployment
from framework.testbeds.docker.read_back import read_back
from optimizer.space import Configuration, Value
from tests.own_parameters import (
    CONFIG,
    CORES,
    MEMORY_MIB,
    MOUNTED,
    TEMPLATE,
    TEMPLATED,
    THREADS,
    load,
    rendered,
    space,
    web,
)

# --------------------------------------------------------------------------- what compose gives

RESOURCES = """\
parameters:
  cpus: {kind: real, low: 0.25, high: 16, step: 0.25, default: host.cores, apply: {resource: cpus}}
  memory: {kind: integer, low: 64, high: 65536, unit: MiB, default: host.memory_mib, apply: {resource: memory}}
  replicas: {kind: integer, low: 1, high: 3, default: 1, apply: {resource: replicas}}
  files: {kind: integer, low: 1024, high: 1048576, default: 1024, apply: {resource: "ulimit:nofile"}}
  backlog: {kind: integer, low: 128, high: 65535, default: 4096, apply: {resource: "sysctl:net.core.somaxconn"}}"""
VALUES: dict[str, Value] = {"cpus": 0.5, "memory": 512, "replicas": 2, "files": 2048, "backlog": 1024}


def test_what_compose_gives_is_written_where_nothing_is(tmp_path: Path) -> None:
    application = load(tmp_path, RESOURCES, "services: {web: {image: w}}\n")
    assert web(rendered(application)) == {"image": "w"}
    assert web(rendered(application, **VALUES)) == {
        "image": "w",
        "cpus": "0.5",
        "mem_limit": "512m",
        "scale": 2,
        "ulimits": {"nofile": {"soft": 2048, "hard": 2048}},
        "sysctls": {"net.core.somaxconn": "1024"},
    }


def test_what_the_user_gives_is_the_default_and_is_written_in_its_place(tmp_path: Path) -> None:
    compose = """\
services:
  web:
    image: w
    cpus: 1.5
    deploy: {replicas: 2, resources: {limits: {memory: 1G}}}
    ulimits: {nofile: {soft: 4096, hard: 65536}}
    sysctls: [net.core.somaxconn=512, net.ipv4.tcp_syncookies=0]
"""
    application = load(tmp_path, RESOURCES, compose)
    assert space(application).default() == {
        "web.cpus": 1.5, "web.memory": 1024, "web.replicas": 2, "web.files": 4096, "web.backlog": 512,
    }  # fmt: skip
    assert web(rendered(application, **{**VALUES, "replicas": 3})) == {
        "image": "w",
        "cpus": "0.5",
        "deploy": {"replicas": 3, "resources": {"limits": {"memory": "512m"}}},
        "ulimits": {"nofile": {"soft": 2048, "hard": 65536}},
        "sysctls": {"net.core.somaxconn": "1024", "net.ipv4.tcp_syncookies": "0"},
    }


def test_memory_in_bytes_is_read_as_compose_prints_it(tmp_path: Path) -> None:
    application = load(tmp_path, RESOURCES, "services: {web: {image: w, mem_limit: '536870912'}}\n")
    assert application.present["web.memory"].value == 512


def test_limits_end_at_the_host_and_their_sum_does_too(tmp_path: Path) -> None:
    application = load(tmp_path, RESOURCES, "services: {web: {image: w, cpus: 1, mem_limit: 1g}}\n")
    searched = space(application)
    assert searched["web.cpus"].high == CORES
    assert searched["web.memory"].high == MEMORY_MIB
    assert searched.is_feasible(Configuration({**searched.default(), "web.replicas": 3}))
    assert not searched.is_feasible(Configuration({**searched.default(), "web.replicas": 3, "web.cpus": 2.0}))
    assert not searched.is_feasible(Configuration({**searched.default(), "web.replicas": 3, "web.memory": 2048}))


def test_today_s_limits_may_exceed_the_host(tmp_path: Path) -> None:
    application = load(tmp_path, RESOURCES, "services: {web: {image: w, scale: 2}}\n")
    assert space(application).is_feasible(space(application).default()), "no limit at all is what runs today"


# --------------------------------------------------------------------------- read-back


class Engine:
    """An engine with one container, as it would tell of it."""

    def __init__(self, about: Mapping[str, Any], files: Mapping[str, str]) -> None:
        self.about, self.files = about, files

    def inspect(self, container: str) -> Mapping[str, Any]:
        return self.about

    def archive(self, container: str, path: str) -> bytes | None:
        if path not in self.files:
            return None
        content, made = self.files[path].encode(), io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            member = tarfile.TarInfo(path.rpartition("/")[2])
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        return made.getvalue()


GIVEN: Mapping[str, Any] = {
    "HostConfig": {
        "NanoCpus": 500_000_000,
        "Memory": 512 << 20,
        "Ulimits": [{"Name": "nofile", "Soft": 2048, "Hard": 65536}],
        "Sysctls": {"net.core.somaxconn": "1024"},
    }
}
CONTAINERS = {"web": Container("web", "1", "web", "w", "", "10.0.0.2", 1, "")}


def told(engine: Engine, deployment: Deployment) -> tuple[str, ...]:
    return read_back(engine, deployment.expectations, CONTAINERS)  # type: ignore[arg-type]


def test_the_engine_proves_what_it_gives(tmp_path: Path) -> None:
    application = load(tmp_path, RESOURCES, "services: {web: {image: w}}\n")
    changed = {name: value for name, value in VALUES.items() if name != "replicas"}
    assert told(Engine(GIVEN, {}), rendered(application, **changed)) == ()
    assert told(Engine({}, {}), rendered(application)) == (), "at the default nothing is written"
    for name, other in {"cpus": 0.75, "memory": 513, "files": 2049, "backlog": 1025}.items():
        with pytest.raises(ParameterNotApplied):
            told(Engine(GIVEN, {}), rendered(application, **{**changed, name: other}))


def test_a_file_shows_a_value_at_its_key(tmp_path: Path) -> None:
    deployment = rendered(load(tmp_path, THREADS, MOUNTED), threads=16)
    [text] = deployment.files.values()
    assert told(Engine({}, {"/etc/config.yaml": text}), deployment) == ("web.threads",)
    for other in (CONFIG, "", "server: ["):
        with pytest.raises(ParameterNotApplied, match="nor does the container show '16'"):
            told(Engine({}, {"/etc/config.yaml": other}), deployment)


def test_a_template_s_line_shows_a_value(tmp_path: Path) -> None:
    deployment = rendered(load(tmp_path, TEMPLATED, "services: {web: {image: w}}\n", {"web.tmpl": TEMPLATE}), size=9)
    assert told(Engine({}, {"/etc/web.conf": "size 9;\n"}), deployment) == ("web.size",)
    with pytest.raises(ParameterNotApplied):
        told(Engine({}, {"/etc/web.conf": "size 10;\n"}), deployment)
