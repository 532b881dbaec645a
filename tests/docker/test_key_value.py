"""The key-value service as a user tunes it: every knob reaches the server, over HTTP and over its binary protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from framework.adopt.grades import rounds_of
from framework.compose import render
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.testbeds.docker.testbed import DockerTestbed
from tests.docker.studies import PATIENT, ROOT, WIDE, measured_once, tailor
from tests.testbed_documents import new_project, quiet

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

DIRECTORY = ROOT / "apps" / "key-value"
ENGINE = "key-value.engine"
ENGINES = ("pebble", "redis", "memcached")  # beside the default
TYPES = resolved(load_service_types(), cores=2, memory_mib=4096)
RECORD = bytes(range(256)) * 4


@pytest.fixture
def deployed(tmp_path: Path) -> Iterator[tuple[DockerTestbed, str]]:
    testbed, project = DockerTestbed(tmp_path, load_service_types()), new_project()
    yield testbed, project
    testbed.clean(project, data=True)


def test_every_value_reaches_the_server_and_every_engine_keeps_a_record(deployed: tuple[DockerTestbed, str]) -> None:
    testbed, project = deployed
    application = load_application(DIRECTORY)
    space = search_space(application, TYPES, cores=2, memory_mib=4096, allow_weaker=[ENGINE])
    rounds = [space.default(), *rounds_of(space), *(space.from_default({ENGINE: name}) for name in ENGINES)]
    for configuration in rounds:
        running = testbed.deploy(render(application, TYPES, configuration, project=project, labels={}), quiet)
        assert running.passed == ()
        records = f"http://{running.containers['key-value'].address}:8080/records/7"
        assert httpx.put(records, content=RECORD).status_code == 204
        assert httpx.get(records).content == RECORD
    for name in space:
        assert len({configuration[name] for configuration in rounds}) > 1


@PATIENT
@pytest.mark.parametrize("study", ["p95 over HTTP", "throughput"])
def test_it_is_tuned_like_any_application(home: Path, study: str) -> None:
    is_open = study != "throughput"
    limits = [f"--limits={name}={value}" for name, value in WIDE.items()]
    said = tailor(
        home, "tune", str(DIRECTORY if is_open else DIRECTORY / "throughput"), "--optimizer", "random",
        "--iterations", "1", "--repetitions", "1", "--duration", "3s", "--warm-up", "1s", "--pairs", "0",
        "--drift-every", "0", *(["--rate", "50"] if is_open else []), *limits, "--json",
    )  # fmt: skip
    for trial, measurement in measured_once(home, said.stdout):
        assert measurement["failed_requests"] == 0
        if is_open:
            assert measurement["spans_created"] == measurement["spans_read"] > 0
        else:
            assert trial["value"] < 0, "bursts per second, negated: the objective is minimised"
