"""The end of a first start: health checks that may fail, an entry that answers, services that are idle."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.errors import DeploymentFailed
from framework.model import Application, Container, Deployment, Running, Usage, Workload
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.first_start import in_a_line
from framework.testbeds.docker.listed import Listed
from framework.testbeds.docker.readiness import Readiness
from framework.testbeds.docker.settled import answers, wait_until_settled
from optimizer.space import Configuration
from tests.testbed_documents import application, document, quiet


class Slow(Engine):
    """An engine with a service whose own health check fails until it has been looked at a few times."""

    def __init__(self) -> None:
        super().__init__(attempts=1)
        self.looks = 0

    def containers(self, label: str | None = None) -> list[Listed]:
        self.looks += 1
        status = "Up 2 minutes (healthy)" if self.looks > 3 else "Up 2 minutes (unhealthy)"
        return [Listed("1", "db-1", "running", status, "i", {"com.docker.compose.service": "db"})]

    def logs(self, container: str, lines: int = 20) -> str:
        return "still installing"


def test_a_health_check_may_fail_during_a_first_start() -> None:
    patient = Readiness(Slow(), "p", frozenset(), patient=True)
    assert patient.wait({"db": None}, 60.0, quiet).keys() == {"db"}
    with pytest.raises(DeploymentFailed, match="its own health check fails"):
        Readiness(Slow(), "p", frozenset()).wait({"db": None}, 60.0, quiet)


class Entry(http.server.BaseHTTPRequestHandler):
    statuses: list[int]

    def do_GET(self) -> None:
        self.send_response(self.statuses.pop(0))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.HTTPServer(("127.0.0.1", 0), Entry) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def running_at(address: str) -> Running:
    made = Deployment("a", "p", Configuration({}), {}, {})
    return Running(made, "n", {"web": Container("web", "1", "web", "i", "", address, 1, "")})


class Machine:
    """CPU counters of a service that is busy for its first readings, and the time in which they are read."""

    def __init__(self, busy: int) -> None:
        self.busy, self.seconds, self.used = busy, 0.0, 0.0

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.used += seconds * (1.0 if self.busy > 0 else 0.01)
        self.busy -= 1

    def usage(self) -> Usage:
        return Usage(int(self.seconds * 1e9), {"web": self.used}, 0.0, 0.0, None, 2, 0.0)


def settled(made: Application, running: Running, machine: Machine, timeout_s: float = 60.0) -> float:
    wait_until_settled(made, running, machine.usage, timeout_s, quiet, sleep=machine.sleep, now=lambda: machine.seconds)
    return machine.seconds


def test_a_start_is_over_when_the_entry_answers_and_all_is_idle(tmp_path: Path, port: int) -> None:
    made = replace(
        application("a", tmp_path, document(), seed=False), workload=Workload(1.0, "poisson", f"http://web:{port}", {})
    )
    running = running_at("127.0.0.1")
    Entry.statuses = [502, 503, 404]
    assert not answers(made, running)
    assert settled(made, running, Machine(busy=0)) == pytest.approx(0.5 + 2 * 0.5), "one more 503, two idle readings"
    Entry.statuses = [200]
    assert settled(made, running, Machine(busy=6)) == pytest.approx(6 * 0.5 + 2 * 0.5)
    Entry.statuses = [200]
    assert settled(made, running, Machine(busy=10_000)) == pytest.approx(60.0), "some are never idle"


def test_an_entry_that_does_not_answer_ends_the_wait_and_one_that_is_not_known_does_not_begin_it(
    tmp_path: Path, port: int
) -> None:
    made = application("a", tmp_path, document(), seed=False)
    nobody = replace(made, workload=Workload(1.0, "poisson", f"http://web:{port}", {}))
    Entry.statuses = [504] * 9
    assert settled(nobody, running_at("127.0.0.1"), Machine(busy=0), timeout_s=2.0) == pytest.approx(3.0)
    assert answers(replace(made, workload=Workload(1.0, "poisson", "http://other:1", {})), running_at("127.0.0.1"))
    assert answers(nobody, running_at(""))


def test_the_reason_why_a_first_start_is_not_kept_names_the_last_line_of_the_log() -> None:
    error = DeploymentFailed("compose could not start the deployment", "db", "Creating\n\n  no space left on device\n")
    assert in_a_line(error) == "db: compose could not start the deployment (no space left on device)"
    assert in_a_line(DeploymentFailed("it is not ready")) == "it is not ready"
