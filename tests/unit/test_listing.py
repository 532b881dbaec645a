"""The list of studies equals the summaries, though it reads neither applications nor measurements."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.bootstrap.adapters import Opened
from framework.model import EXTERNAL, TuneRequest
from framework.testing.clock import VirtualClock
from framework.testing.examples import study
from framework.testing.pretend import PretendMachine
from framework.use_cases.listing import listed
from tests.fakes import pretend_tailor

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"


def more_memory_is_faster(configuration: Mapping[str, Any]) -> float:
    return 5.0 + 300.0 / float(configuration.get("cache.memory_mib", 64))


@pytest.fixture
def tailor(tmp_path: Path) -> Iterator[Opened]:
    opened, _ = pretend_tailor(tmp_path, PretendMachine(VirtualClock(), more_memory_is_faster, noise=0.01))
    yield opened
    opened.close()


@pytest.fixture
def application(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SMALL, tmp_path / "small"))


@pytest.fixture
def request_(application: Path) -> TuneRequest:
    return TuneRequest(application, rate_rps=100.0, iterations=6, repetitions=1, pairs=6, drift_every=0, minimal=0)


def run(tailor: Opened, request: TuneRequest) -> None:
    tailor.studies.run(tailor.studies.create(request).id, lambda *_: None)


def test_the_list_says_what_the_summaries_say(tailor: Opened, request_: TuneRequest) -> None:
    run(tailor, request_)
    run(tailor, replace(request_, pairs=0))
    run(tailor, replace(request_, pairs=0, subject_to=("p99 <= 1000", "throughput >= 1")))
    tailor.studies.create(request_)
    summaries = tailor.results.summaries()
    said = [(row.study.id, row.trials, row.headline) for row in listed(tailor.store)]
    assert said == [(summary.study.id, sum(summary.trials.values()), summary.headline) for summary in summaries]
    assert [headline.partition(":")[0] for _, _, headline in said][::3] == [
        "Improvement",
        "The default configuration has no value yet.",
    ]


def test_before_a_choice_the_best_is_the_best_that_keeps_the_limits(tailor: Opened, request_: TuneRequest) -> None:
    """Of a study that was stopped, only the measurements tell which trial that is."""
    run(tailor, replace(request_, pairs=0, subject_to=("p99 <= 1000",)))
    [kept] = tailor.store.studies()
    chosen = kept.best
    assert chosen is not None
    tailor.store.create(replace(kept, id="20300101-000000-aa", best=None))
    for trial in tailor.store.trials(kept.id):
        begun = tailor.store.begin_trial(replace(trial, study="20300101-000000-aa"))
        for measurement in trial.measurements:
            tailor.store.add_measurement(begun.study, begun.number, measurement)
        tailor.store.finish_trial(replace(trial, study=begun.study, number=begun.number))
    first, second = listed(tailor.store)
    assert (first.trials, first.headline) == (second.trials, second.headline)


def test_applications_that_cannot_be_read_hide_no_study(
    tailor: Opened, application: Path, request_: TuneRequest
) -> None:
    tailor.studies.create(request_)
    tailor.store.create(replace(study(), testbed=EXTERNAL))
    (application / "application.yaml").write_text("kind: [")
    assert len(listed(tailor.store)) == 1
    shutil.rmtree(application)
    assert listed(tailor.store) == []
