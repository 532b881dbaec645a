"""Retention: old data is forgotten, data that is in use is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.config.settings import Retention, Settings
from framework.errors import InputError, NotFound
from framework.model import TuneRequest
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from tests.fakes import pretend_tailor

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"
REQUEST = TuneRequest(SMALL, rate_rps=100.0, iterations=2, repetitions=1, pairs=3, drift_every=0, minimal=0)
DAY = 86_400.0


def test_samples_go_first_and_studies_later(tmp_path: Path) -> None:
    clock = VirtualClock()
    tailor, _ = pretend_tailor(tmp_path, PretendMachine(clock, lambda configuration: 10.0, noise=0.01))
    keeper = tailor.keeper
    retention = Retention(samples_s=30 * DAY, studies_s=365 * DAY)
    study = tailor.studies.run(tailor.studies.create(REQUEST).id, lambda event: None)
    headline = tailor.results.summary(tailor.store.get(study.id)).headline
    assert keeper.forget(retention).samples == 0, "too young"
    clock.sleep(31 * DAY)
    measured = [m for trial in tailor.store.trials(study.id) for m in trial.measurements]
    assert keeper.forget(retention).samples == sum(bool(m.latencies_ms.size) + bool(m.spans) for m in measured) > 0
    assert tailor.results.summary(tailor.store.get(study.id)).headline == headline
    assert "<html" in tailor.results.page(tailor.store.get(study.id)), "a report without single latencies"
    clock.sleep(365 * DAY)
    assert keeper.forget(retention).studies == (study.id,)
    with pytest.raises(NotFound):
        tailor.store.get(study.id)
    tailor.close()


def test_the_setting(tmp_path: Path) -> None:
    def retention(text: str) -> Retention:
        return Settings.from_environment({"TAILOR_HOME": str(tmp_path), "TAILOR_RETENTION": text}).retention

    assert retention("") == Retention()
    assert retention("samples=30d, studies=365d") == Retention(30 * DAY, 365 * DAY)
    for wrong in ("traces=3d", "samples", "samples=3", "samples=d"):
        with pytest.raises(InputError, match="TAILOR_RETENTION"):
            retention(wrong)
