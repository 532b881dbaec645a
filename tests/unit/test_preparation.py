"""Preparation by the workload's own requests: until they are answered and their latency settles, as often as before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framework.config.application import load_application
from framework.errors import DeploymentFailed, FileError
from framework.model import LoadPlan, LoadResult, Workload
from framework.preparation import ANSWER_S, MOST_PARTS, answered, medians_ms, settled, warmed
from framework.testing.clock import VirtualClock

WORKLOAD = Workload(10.0, "poisson", "http://web:80", {})
PLAN = LoadPlan(WORKLOAD, 10.0, 5.0, 20.0, seed=7)


def load(latencies_ms: Iterable[float], status: int = 200, a_second: int = 10) -> LoadResult:
    """Return a load whose requests of each second have one latency."""
    values = np.repeat(np.array(list(latencies_ms)), a_second)
    due = (np.arange(len(values)) * 1e9 / a_second).astype(np.int64)
    return LoadResult(
        started_ns=0, warmup_s=0.0, window_s=len(values) / a_second, classes=("a",), due_ns=due, sent_ns=due,
        end_ns=due + (values * 1e6).astype(np.int64), request_class=np.zeros(len(values), np.uint8),
        status=np.full(len(values), status, np.int16), ok=np.full(len(values), status == 200),
        errors={} if status == 200 else {f"status {status}": len(values)}, spans_created=0, spans_exported=0, cpu_s=0.0,
    )  # fmt: skip


class Application:
    """Answers loads one after the other, the last for ever."""

    def __init__(self, clock: VirtualClock, *loads: LoadResult) -> None:
        self.clock, self.loads, self.plans = clock, list(loads), list[LoadPlan]()

    def send(self, plan: LoadPlan) -> LoadResult:
        self.plans.append(plan)
        self.clock.sleep(plan.warmup_s + plan.window_s)
        return self.loads.pop(0) if len(self.loads) > 1 else self.loads[0]


@pytest.mark.parametrize(
    ("loads", "parts"),
    [
        ([[10, 10, 10]], 1),
        ([[700, 400, 90], [40, 36, 35]], 2),
        ([[700, 600, 500], [400, 300, 200], [100, 50, 40], [35, 35, 35]], 4),
        ([[10, 100, 10]], MOST_PARTS),
    ],
)
def test_it_ends_when_three_seconds_are_alike(loads: list[list[float]], parts: int) -> None:
    clock = VirtualClock()
    application = Application(clock, *map(load, loads))
    assert warmed(application.send, PLAN, clock) == parts
    assert len(application.plans) == parts
    assert {(plan.warmup_s, plan.window_s, plan.trace) for plan in application.plans} == {(0.0, 3.0, False)}


def test_every_repetition_sends_the_requests_of_the_first() -> None:
    clock = VirtualClock()
    first, second = Application(clock, load([9, 3, 1]), load([1, 1, 1])), Application(clock, load([1, 1, 1]))
    parts = warmed(first.send, PLAN, clock)
    assert warmed(second.send, PLAN, clock, parts) == parts
    assert second.plans == first.plans
    assert len({plan.seed for plan in first.plans}) == len(first.plans)
    assert PLAN.seed not in {plan.seed for plan in first.plans}


def test_parts_before_the_first_answers_do_not_count() -> None:
    clock = VirtualClock()
    application = Application(clock, load([1, 1, 1], 0), load([1, 1, 1], 502), load([1, 1, 1]))
    assert warmed(application.send, PLAN, clock) == 1
    assert len({plan.seed for plan in application.plans}) == 1


@pytest.mark.parametrize("status", [200, 301, 404])
def test_any_status_below_500_is_an_answer(status: int) -> None:
    clock = VirtualClock()
    assert answered(Application(clock, load([1], status)).send, PLAN, clock).status[0] == status


def test_what_never_answers_fails_with_its_reasons() -> None:
    clock = VirtualClock()
    began = clock.monotonic()
    with pytest.raises(DeploymentFailed, match=r"10 of 10 requests to http://web:80 have no answer .*10 x status 503"):
        answered(Application(clock, load([1], 503)).send, PLAN, clock)
    assert clock.monotonic() - began < ANSWER_S + 30


def test_what_answers_too_few_is_left_to_the_measurement() -> None:
    clock = VirtualClock()
    few = load([1, 1, 1])
    few = replace(few, ok=np.arange(len(few.ok)) % 3 == 0, status=np.where(np.arange(len(few.ok)) % 3 == 0, 200, 0))
    application = Application(clock, load([1], 503), few, load([1], 503), few, few, few)
    assert answered(application.send, replace(PLAN, warmup_s=0.0, window_s=3.0), clock) is few
    assert len(application.plans) == 6


def test_low_rates_have_longer_parts() -> None:
    clock = VirtualClock()
    application = Application(clock, load([1, 1, 1]))
    warmed(application.send, LoadPlan(WORKLOAD, 0.5, 5.0, 20.0, seed=1), clock)
    assert application.plans[0].window_s == 12.0


def test_failures_are_infinitely_slow() -> None:
    assert medians_ms(load([5, 6], 500)) == [np.inf, np.inf]
    assert not settled([np.inf] * 3)
    assert settled([0.01, 0.02, 0.05]), "differences below 0.1 ms are none"
    assert not settled([1.0, 1.0])


# ---------------------------------------------------------------------- the key of application.yaml


@pytest.mark.parametrize(
    ("key", "hook", "by_requests", "by_hook"),
    [
        ("", False, True, False),
        ("", True, False, True),
        ("prepare: none\n", False, False, False),
        ("prepare: none\n", True, False, False),
        ("prepare: requests\n", True, True, False),
        ("prepare: hook\n", True, False, True),
        ("load: {generator: other}\n", False, False, False),
    ],
)
def test_an_application_says_how_it_is_prepared(
    tmp_path: Path, key: str, hook: bool, by_requests: bool, by_hook: bool
) -> None:
    application = load_application(written(tmp_path, key + ("hooks: {prepare: {service: fill}}\n" if hook else "")))
    assert (application.prepare_requests, application.hooks.prepare is not None) == (by_requests, by_hook)


def test_a_hook_that_is_not_declared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="prepare: found 'hook'; allowed: requests, none"):
        load_application(written(tmp_path, "prepare: hook\n"))


def written(directory: Path, more: str) -> Path:
    (directory / "compose.yaml").write_text(
        "services:\n  web: {image: nginx}\n  fill: {image: nginx, profiles: [tailor]}\n"
    )
    (directory / "workload.yaml").write_text(
        "kind: workload\nversion: 1\ntimeout_ms: 1000\nrequests:\n  - {name: a, weight: 1, path: /}\n"
    )
    (directory / "application.yaml").write_text(
        "kind: application\nversion: 1\nname: shop\nservices: {web: {type: nginx}}\n"
        f"workload: {{file: workload.yaml, rate_rps: 5, target: 'http://web:80'}}\n{more}"
    )
    return directory
