"""The generator's container drives a real HTTP server, reports every request, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framework.errors import InputError, LoadFailed, MissingPrerequisite
from framework.load.container import IMAGE, ContainerLoad
from framework.model import Application, Deployment, LoadPlan, Objective, Running, Tracing, Usage, Workload
from framework.testbeds.docker.side_containers import DockerSideContainers
from optimizer.space import Configuration
from tests.testbed_documents import new_project

pytestmark = pytest.mark.docker

MIX: Mapping[str, Any] = {
    "kind": "workload",
    "version": 1,
    "timeout_ms": 2000,
    "requests": [
        {"name": "good", "weight": 8, "path": "/ok", "expect": {"min_items": 1}},
        {"name": "failing", "weight": 1, "path": "/status/503"},
        {"name": "cut", "weight": 1, "method": "POST", "path": "/cut", "form": {"number": "{seq}"}},
    ],
}


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()


class Target:
    """A running deployment of one server, which is the generator's own program in its serving mode."""

    def __init__(self, project: str) -> None:
        self.project = project
        labels = {"tailor.project": project}
        docker("network", "create", "--label", f"tailor.project={project}", project)
        name = f"{project}-target"
        docker("run", "-d", "--name", name, "--network", project, "--network-alias", "target",
               "--label", f"tailor.project={project}", IMAGE, "-serve", ":8080")  # fmt: skip
        shown = json.loads(docker("inspect", name))[0]
        self.address = shown["NetworkSettings"]["Networks"][project]["IPAddress"]
        deployment = Deployment("test", project, Configuration({}), {}, {}, labels=labels)
        self.running = Running(deployment, project, {})

    def counts(self) -> Any:
        with urllib.request.urlopen(f"http://{self.address}:8080/counts", timeout=10) as reply:
            return json.load(reply)

    def left(self) -> str:
        return docker("ps", "-aq", "--filter", f"name=^{self.project}-loadgen$")

    def remove(self) -> None:
        for container in docker("ps", "-aq", "--filter", f"label=tailor.project={self.project}").split():
            docker("rm", "-f", "-v", container)
        docker("network", "rm", self.project)


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target(new_project())
    yield made
    made.remove()


APPLICATION = Application(
    name="test",
    directory=Path(),
    compose={},
    services=(),
    hosts=(),
    workload=Workload(50, "poisson", "http://target:8080", MIX),
    tracing=Tracing("target", otlp_port=8080),
    objective=Objective(),
)


USERS: Mapping[str, Any] = {
    "kind": "workload",
    "version": 1,
    "timeout_ms": 2000,
    "variables": {"name": {"by_user": ["ann", "bob"]}},
    "users": {
        "count": 4,
        "login": [
            {"name": "log in", "method": "POST", "path": "/login",
             "form": {"user": "{name}", "password": "secret-{name}"}, "take": {"token": {"json": "$.tokens[0].value"}}},
        ],
    },
    "requests": [
        {"name": "private", "weight": 1, "path": "/private", "headers": {"Authorization": "Bearer {token}"}},
        {"name": "upload", "weight": 1, "method": "POST", "path": "/bytes", "body_file": "a.bin",
         "expect": {"body": "^70000 <nil>$"}},
    ],
}  # fmt: skip


def plan(
    document: Mapping[str, Any] = MIX,
    *,
    warmup_s: float = 0.5,
    window_s: float = 1.5,
    files: Mapping[str, bytes] | None = None,
    **more: Any,
) -> LoadPlan:
    workload = Workload(50, "poisson", "http://target:8080", document, files or {})
    return LoadPlan(workload, 50, warmup_s, window_s, seed=11, **more)


class Meter:
    """Takes the place of the testbed's usage, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Usage:
        self.calls += 1
        return Usage(self.calls, {}, 0, 0, None, 2, 0)


def run(target: Target, planned: LoadPlan, progress: Callable[[str], None] = lambda _: None, **options: Any) -> Any:
    return ContainerLoad(APPLICATION, DockerSideContainers(), **options).run(planned, target.running, Meter(), progress)


def test_every_request_is_reported_and_has_its_span(target: Target) -> None:
    shown: list[Any] = []

    def watch(phrase: str) -> None:
        if phrase == "window":
            shown.extend(json.loads(docker("inspect", f"{target.project}-loadgen")))

    meter = Meter()
    result = ContainerLoad(APPLICATION, DockerSideContainers(), cpuset="0").run(plan(), target.running, meter, watch)

    assert (result.usage_before, result.usage_after) == (Usage(1, {}, 0, 0, None, 2, 0), Usage(2, {}, 0, 0, None, 2, 0))
    assert result.classes == ("good", "failing", "cut")
    window = result.due_ns >= result.started_ns + 500_000_000
    counts = target.counts()
    assert counts["requests"] == counts["spans"] == {"tailor=w": int((~window).sum()), "tailor=m": int(window.sum())}
    assert (result.spans_created, result.spans_exported) == (int(window.sum()), int(window.sum()))
    status = [Counter(result.status[result.request_class == kind].tolist()) for kind in range(3)]
    assert [set(codes) for codes in status] == [{200}, {503}, {200}]
    assert np.array_equal(result.ok, result.request_class == 0)
    failing, cut = (int((window & (result.request_class == kind)).sum()) for kind in (1, 2))
    assert result.errors == {"status 503": failing, "truncated reply": cut}
    assert (result.sent_ns >= result.due_ns).all()
    assert (result.end_ns >= result.sent_ns).all()
    assert result.cpu_s is not None
    assert result.cpu_s > 0
    assert result.tick_us is not None
    assert result.tick_us > 0

    assert shown[0]["Config"]["Labels"]["tailor.role"] == "loadgen"
    assert shown[0]["Config"]["Labels"]["tailor.project"] == target.project
    assert shown[0]["HostConfig"]["CpusetCpus"] == "0"
    assert target.left() == ""


def test_the_same_seed_sends_the_same_requests_and_a_stale_container_is_replaced(target: Target) -> None:
    label = f"tailor.project={target.project}"
    docker("run", "-d", "--name", f"{target.project}-loadgen", "--label", label, IMAGE, "-serve", ":8080")
    first = run(target, plan(trace=False))
    again = run(target, plan(trace=False))
    assert np.array_equal(first.due_ns - first.started_ns, again.due_ns - again.started_ns)
    assert np.array_equal(first.request_class, again.request_class)
    assert first.spans_created == 0
    assert target.counts()["spans"] == {}


def test_a_container_of_somebody_else_that_has_its_name_is_left_alone(target: Target) -> None:
    name = f"{target.project}-loadgen"
    theirs = docker("run", "-d", "--name", name, IMAGE, "-serve", ":8080")
    try:
        with pytest.raises(InputError, match=f"{name} was not made for .*left alone"):
            run(target, plan(trace=False))
        assert json.loads(docker("inspect", theirs))[0]["State"]["Running"]
    finally:
        docker("rm", "-f", theirs)


def test_a_malformed_workload_is_refused_before_anything_is_sent(target: Target) -> None:
    with pytest.raises(InputError, match=r"requests\[0\]: path: .*unknown variable; known: seq, word:N"):
        run(target, plan({**MIX, "requests": [{"name": "a", "weight": 1, "path": "/{user}"}]}))
    assert target.counts()["requests"] == {}
    assert target.left() == ""


def test_nobody_answers(target: Target) -> None:
    docker("rm", "-f", f"{target.project}-target")
    result = run(target, plan(trace=False))
    assert not result.ok.any()
    assert set(result.errors) <= {"name not resolved", "timeout"}


def test_without_its_image_it_says_how_to_get_it(target: Target) -> None:
    with pytest.raises(MissingPrerequisite, match="make images"):
        run(target, plan(), image="tailor/loadgen:none")


def test_a_refusal_of_the_engine_is_a_failed_load(target: Target) -> None:
    with pytest.raises(LoadFailed, match=r"the engine could not run the load generator: .*CPU"):
        run(target, plan(), cpuset="4000")
    assert target.left() == ""


@pytest.mark.parametrize(
    ("signal", "message"), [("KILL", "ended in window with status 137"), ("TERM", "interrupted in window")]
)
def test_a_generator_that_is_stopped_is_a_failed_load(target: Target, signal: str, message: str) -> None:
    def stop(phrase: str) -> None:
        if phrase == "window":
            docker("kill", "--signal", signal, f"{target.project}-loadgen")

    with pytest.raises(LoadFailed, match=message):
        run(target, plan(window_s=60), stop)
    assert target.left() == ""


def test_a_generator_that_does_not_end_is_stopped(target: Target) -> None:
    with pytest.raises(LoadFailed, match="had not finished after 3 s"):
        run(target, plan(window_s=60), grace_s=-59.5)
    assert target.left() == ""


def test_an_error_of_the_caller_leaves_nothing_behind(target: Target) -> None:
    def fail(phrase: str) -> None:
        if phrase == "window":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(target, plan(window_s=60), fail)
    assert target.left() == ""


def test_users_log_in_before_the_load_and_files_are_sent(target: Target) -> None:
    steps: list[str] = []
    result = run(target, plan(USERS, files={"a.bin": bytes(range(250)) * 280}), steps.append)
    assert result.ok.all()
    assert dict(result.errors) == {}
    assert set(result.request_class.tolist()) == {0, 1}
    phases = [step for step in steps if step in ("login", "warmup", "window", "drain", "done")]
    assert phases == ["login", "warmup", "window", "drain", "done"]
    window = result.due_ns >= result.started_ns + 500_000_000
    counts = target.counts()
    assert counts["spans"] == {"tailor=w": int((~window).sum()), "tailor=m": int(window.sum())}, "log-ins have none"
    assert counts["requests"] == {"tailor=w": int((~window).sum()) + 4, "tailor=m": int(window.sum())}


def test_a_log_in_that_fails_is_the_reason_and_nothing_is_measured(target: Target) -> None:
    document = json.loads(json.dumps(USERS).replace("secret-", "guess-"))
    with pytest.raises(LoadFailed, match=r'users.login\[0\] "log in" of user \d: status 403: "wrong password'):
        run(target, plan(document, files={"a.bin": b""}))
    assert "tailor=m" not in target.counts()["requests"]
    assert target.left() == ""
