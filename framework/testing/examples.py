"""Small studies, trials and measurements for tests."""

from __future__ import annotations

import numpy as np

from framework.model import Estimate, Measurement, Study, StudyPlan, StudyState, Trial, TrialState
from framework.ports.store import StudyStore
from framework.testing.pretend import MACHINE
from optimizer.space import Configuration

PLAN = StudyPlan("app", "dds", {}, 3, 2, 5.0, 20.0, 100.0, 1, 10)


INFINITE = Estimate(1.0, 0.5, float("inf"), 3)


def study(name: str = "20260101-000000-aa") -> Study:
    return Study(name, "2026-01-01T00:00:00", StudyState.CREATED, PLAN, "hash", {}, MACHINE, {}, "docker")


def measurement(repetition: int = 0) -> Measurement:
    return Measurement(
        repetition, 0, (), (), 12.5, {"p95": INFINITE}, 100, 0, 99.0, 100.0, 0.1, 12.4, 300, 300, 0.0, None,
        {"application": 0.5}, {}, (), {"cache": {"hits": 3.0}}, {"load": 25.0},
        latencies_ms=np.array([1.0, 2.5, np.inf], np.float32),
    )  # fmt: skip


def begin(store: StudyStore, purpose: str = "search") -> Trial:
    configuration = Configuration({"cache.size": 3, "cache.ratio": 0.5, "cache.on": True, "cache.policy": "a"})
    return store.begin_trial(Trial(study().id, 0, purpose, configuration, TrialState.RUNNING))  # type: ignore[arg-type]  # a purpose
