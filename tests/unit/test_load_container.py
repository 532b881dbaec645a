"""Events of the load generator become a result, or an error with the reason of its end; its container is a fake."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.errors import DeploymentFailed, LoadFailed, MissingPrerequisite
from framework.load.container import ContainerLoad
from framework.model import Application, Deployment, LoadPlan, Objective, Running, Tracing, Usage, Workload
from framework.model.side_container import Ended, SideContainer
from optimizer.space import Configuration

APPLICATION = Application(
    name="a", directory=Path(), compose={}, services=(), hosts=(),
    workload=Workload(50, "poisson", "http://target", {}), tracing=Tracing("jaeger"), objective=Objective(),
)  # fmt: skip
PLAN = LoadPlan(APPLICATION.workload, 50, 1.0, 2.0, seed=1)
RUNNING = Running(Deployment("a", "tailor-s", Configuration({}), {}, {}), "net", {})


class Containers:
    """A fake engine whose container writes the given events."""

    def __init__(self, events: list[dict[str, Any]], error: Exception | None = None, image: bool = True) -> None:
        self._events, self._error, self._image = events, error, image

    def has_image(self, name: str) -> bool:
        return self._image

    def cores(self) -> int:
        return 4

    def run(self, wanted: SideContainer, each: Callable[[bytes], None]) -> Ended:
        assert (wanted.project, wanted.name, wanted.network) == ("tailor-s", "tailor-s-loadgen", "net")
        assert wanted.cpus == "3", "a core of its own, where there are four"
        for event in self._events:
            each(json.dumps(event).encode())
        if self._error is not None:
            raise self._error
        return Ended(1, "out of memory\n", late=False)


def run(containers: Containers, usage: Callable[[], Usage]) -> Any:
    return ContainerLoad(APPLICATION, containers).run(PLAN, RUNNING, usage, lambda step: None)


def no_usage() -> Usage:
    raise AssertionError


def test_a_service_that_ended_is_named_and_not_the_generator() -> None:
    def ended() -> Usage:
        raise DeploymentFailed("its container is exited with 137", "jaeger")

    with pytest.raises(DeploymentFailed, match=r"^jaeger: its container is exited with 137") as raised:
        run(Containers([{"event": "phase", "name": "window"}]), ended)
    assert raised.value.service == "jaeger"


def test_what_the_engine_refuses_is_a_failed_load() -> None:
    with pytest.raises(LoadFailed, match="the engine could not run the load generator: no such CPU"):
        run(Containers([], DeploymentFailed("no such CPU")), no_usage)
    with pytest.raises(MissingPrerequisite, match="make images"):
        run(Containers([], image=False), no_usage)


def test_an_end_without_a_result_says_what_it_wrote() -> None:
    with pytest.raises(LoadFailed, match=r"(?s)ended in start with status 1.*out of memory"):
        run(Containers([]), no_usage)
    with pytest.raises(LoadFailed, match="unknown event 'x'"):
        run(Containers([{"event": "x"}]), no_usage)


@pytest.mark.parametrize(
    ("tracing", "roots", "endpoint"),
    [
        (Tracing("jaeger"), None, "http://jaeger:4318"),
        (Tracing("zipkin", 9411, api="zipkin"), "report", ""),
        (Tracing("tempo", 3200, api="tempo"), "report", ""),
        (None, None, ""),
    ],
)
def test_a_store_that_takes_no_root_spans_has_them_reported(
    tracing: Tracing | None, roots: str | None, endpoint: str
) -> None:
    plans: list[Any] = []

    class Kept(Containers):
        def run(self, wanted: SideContainer, each: Callable[[bytes], None]) -> Ended:
            plans.append(json.loads(wanted.files["/plan.json"]))
            return super().run(wanted, each)

    application = replace(APPLICATION, tracing=tracing)
    with pytest.raises(LoadFailed):
        ContainerLoad(application, Kept([])).run(
            replace(PLAN, trace=tracing is not None), RUNNING, no_usage, lambda step: None
        )
    assert (plans[0].get("roots"), plans[0]["otlp_endpoint"]) == (roots, endpoint)
