"""The search as a user tunes it: every knob reaches the server, spans are complete, a full queue refuses at once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from framework.adopt.grades import rounds_of
from framework.compose import render
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.testbeds.docker.testbed import DockerTestbed
from optimizer.space import Configuration, SearchSpace
from tests.docker.studies import PATIENT, ROOT, WIDE, measured_once, tailor
from tests.testbed_documents import new_project, quiet

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

DIRECTORY = ROOT / "apps" / "search"
TYPES = resolved(load_service_types(), cores=2, memory_mib=4096)
TOGETHER = 200  # requests at the same time, far more than one thread and a queue of eight can take


@dataclass(frozen=True)
class Stack:
    """The application on an engine, deployed with one configuration after the other."""

    testbed: DockerTestbed
    project: str
    space: SearchSpace

    def deploy(self, configuration: Configuration) -> str:
        """Return the address of the server, which has told all of its values itself."""
        application = load_application(DIRECTORY)
        deployment = render(application, TYPES, configuration, project=self.project, labels={})
        running = self.testbed.deploy(deployment, quiet)
        assert running.passed == ()
        return f"http://{running.containers['search'].address}"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    testbed, project = DockerTestbed(tmp_path, load_service_types()), new_project()
    yield Stack(testbed, project, search_space(load_application(DIRECTORY), TYPES, cores=2, memory_mib=4096))
    testbed.clean(project, data=True)


def test_every_value_reaches_the_server(stack: Stack) -> None:
    rounds = [stack.space.default(), *rounds_of(stack.space)]
    for configuration in rounds:
        stack.deploy(configuration)
    for name in stack.space:
        assert len({configuration[name] for configuration in rounds}) > 1


def test_a_full_queue_refuses_and_the_rest_is_answered(stack: Stack) -> None:
    values = {"search.threads": 1, "search.queue_length": 8, "search.cache_entries": 0}
    server = stack.deploy(stack.space.from_default(values))
    limits = httpx.Limits(max_connections=TOGETHER)
    with (
        httpx.Client(base_url=server + ":8080", timeout=60, limits=limits) as client,
        ThreadPoolExecutor(TOGETHER) as pool,
    ):
        replies = list(
            pool.map(lambda rank: client.get("/search", params={"ranks": f"{rank},1,2"}), range(1, TOGETHER + 1))
        )
        metrics = client.get("/metrics").text
    statuses = [reply.status_code for reply in replies]
    assert set(statuses) == {200, 503}
    assert f"\nsearch_refused_total {statuses.count(503)}\n" in metrics
    assert f"\nsearch_request_duration_seconds_count {statuses.count(200)}\n" in metrics
    assert all(len(reply.json()["hits"]) == 10 for reply in replies if reply.status_code == 200)


@PATIENT
def test_it_is_tuned_like_any_application(home: Path) -> None:
    limits = [f"--limits={name}={value}" for name, value in WIDE.items()]
    said = tailor(
        home, "tune", str(DIRECTORY), "--optimizer", "random", "--iterations", "1", "--repetitions", "1",
        "--duration", "3s", "--warm-up", "1s", "--pairs", "0", "--drift-every", "0", "--rate", "50", *limits, "--json",
    )  # fmt: skip
    for _, measurement in measured_once(home, said.stdout):
        assert measurement["spans_created"] == measurement["spans_read"] > 0
        assert {service["service"] for service in measurement["services"]} >= {"search"}
