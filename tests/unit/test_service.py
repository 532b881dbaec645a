"""The use cases on a pretend machine: a real application directory, the real knowledge base and store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.bootstrap.adapters import Opened
from framework.config.knowledge import load_service_types
from framework.errors import InputError, Interrupted
from framework.model import StudyId, StudyState, Trial, TrialState, TuneRequest
from framework.model.documents import encode
from framework.model.events import Event, RateMeasured, TrialFinished
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from tests.fakes import pretend_tailor

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "cases" / "good" / "small"


def more_memory_is_faster(configuration: Mapping[str, Any]) -> float:
    """Parameters that are not tuned have their defaults; those of the front end do not matter."""
    return 5.0 + 300.0 / float(configuration.get("cache.memory_mib", 64))


@pytest.fixture
def tailor(tmp_path: Path) -> Iterator[Opened]:
    opened, _ = pretend_tailor(tmp_path, PretendMachine(VirtualClock(), more_memory_is_faster, noise=0.01))
    yield opened
    opened.close()


REQUEST = TuneRequest(SMALL, rate_rps=100.0, repetitions=2, pairs=4, drift_every=0, minimal=0)


def run(tailor: Opened, request: TuneRequest) -> str:
    study = tailor.studies.run(tailor.studies.create(request).id, lambda event: None)
    assert study.state is StudyState.COMPLETED
    return study.id


def test_a_screened_study_says_which_service_the_next_one_tunes(tailor: Opened) -> None:
    screening = run(tailor, replace(REQUEST, optimizer="morris", iterations=12))
    screened = replace(REQUEST, iterations=4, reduce="screening", screening=StudyId(screening))
    study = tailor.store.get(run(tailor, screened))
    assert study.plan.screened["cache"] > 10 * study.plan.screened["front"]
    assert study.decisions.reduction is not None
    assert study.decisions.reduction.kept == ("cache",)
    [removed] = study.decisions.reduction.removed
    assert removed.service == "front"
    assert "of the largest; the threshold is 10.0%" in removed.reason
    searched = [trial for trial in tailor.store.trials(study.id) if trial.purpose == "search"]
    assert {name.partition(".")[0] for trial in searched for name in trial.configuration} == {"cache"}
    assert "of the largest; the threshold is 10.0%" in tailor.results.write_report(study).read_text()


def test_a_study_with_too_few_trials_screens_nothing(tailor: Opened) -> None:
    short = run(tailor, replace(REQUEST, iterations=1))
    with pytest.raises(InputError, match="says nothing of importance"):
        tailor.studies.create(replace(REQUEST, reduce="screening", screening=StudyId(short)))


def test_the_best_of_a_study_is_compared_again_by_its_file(tailor: Opened, tmp_path: Path) -> None:
    first = run(tailor, replace(REQUEST, iterations=6))
    tailor.results.export_best(first, tmp_path / "tuned")
    written = tmp_path / "tuned" / "configuration.yaml"
    study = tailor.store.get(run(tailor, replace(REQUEST, iterations=0, pairs=6, rivals=(written,))))
    verdict = study.rivals["default to tuned"]
    assert verdict.statement == "improvement"
    before = tailor.store.get(first).verdict
    assert before is not None
    assert verdict.gain.value == pytest.approx(before.gain.value, abs=0.1)
    with pytest.raises(InputError, match="a second configuration called 'tuned'"):
        tailor.studies.create(replace(REQUEST, rivals=(written, written)))
    with pytest.raises(InputError, match="a second configuration called 'best'"):
        tailor.studies.create(replace(REQUEST, rivals=(written.rename(tmp_path / "best.yaml"),)))


def test_the_knowledge_base_has_numbers_for_this_machine(tailor: Opened) -> None:
    assert set(tailor.catalogue.service_types()) == set(load_service_types())
    [memcached] = tailor.catalogue.service_types_named("memcached")
    assert all(parameter.low is None or not isinstance(parameter.low, str) for parameter in memcached.parameters)


def test_a_sweep_reports_each_rate_and_stores_its_end(tailor: Opened) -> None:
    happened: list[Event] = []
    sweep = tailor.sweeps.run(
        SMALL, happened.append, start_rps=100.0, factor=2.0, limit_ms=1e3, window_s=20.0, repetitions=1,
        maximum_rps=200.0, seed=1, limits={},
    )  # fmt: skip
    assert [event.step for event in happened if isinstance(event, RateMeasured)] == list(sweep.steps)
    assert [step.rate_rps for step in sweep.steps] == [100.0, 200.0]
    [study] = tailor.store.studies()
    [stored] = [event["sweep"] for event in tailor.store.events(study.id) if event["kind"] == "sweep"]
    assert stored == encode(sweep)


# ---------------------------------------------------------------------- another space for a study that was stopped


def stopped_after(tailor: Opened, request: TuneRequest, trials: int) -> str:
    """A study that a person stopped when so many trials had finished."""
    finished = []

    def stop(event: Event) -> None:
        if isinstance(event, TrialFinished):
            finished.append(event)
        elif len(finished) == trials:
            raise KeyboardInterrupt

    study = tailor.studies.create(request).id
    with pytest.raises(Interrupted):
        tailor.studies.run(study, stop)
    assert tailor.store.get(study).state is StudyState.PAUSED
    return study


def searched(tailor: Opened, study: str) -> list[Trial]:
    return [t for t in tailor.store.trials(study) if t.purpose == "search" and t.state is TrialState.COMPLETED]


def test_an_edited_space_keeps_what_still_fits(tailor: Opened) -> None:
    study = stopped_after(tailor, replace(REQUEST, optimizer="tailor", iterations=12, only=("cache",)), trials=7)
    before = tailor.store.get(study)
    measured = searched(tailor, study)
    assert len(measured) == 6
    edited = tailor.studies.edit(study, TuneRequest(SMALL, without=("cache.threads", "front")))
    names = {parameter["name"] for parameter in edited.space["parameters"]}
    assert names == {parameter["name"] for parameter in before.space["parameters"]} - {"cache.threads"}
    finished = tailor.studies.run(study, lambda event: None)
    assert finished.state is StudyState.COMPLETED
    after = searched(tailor, study)
    assert after[:6] == measured
    assert len(after) == 12
    assert all("cache.threads" not in trial.configuration for trial in after[6:])
    default = {parameter["name"]: parameter["default"] for parameter in before.space["parameters"]}
    best = next(t for t in tailor.store.trials(study) if t.number == finished.best)
    assert best.configuration.get("cache.threads", default["cache.threads"]) == default["cache.threads"]
    assert float(best.configuration["cache.memory_mib"]) > 64
    assert tailor.results.write_report(finished).exists()
    with pytest.raises(InputError, match="is completed; only a study that was stopped"):
        tailor.studies.edit(study, TuneRequest(SMALL))


def test_a_study_whose_process_was_killed_can_be_edited(tailor: Opened) -> None:
    study = stopped_after(tailor, replace(REQUEST, optimizer="dds", iterations=8, only=("cache",)), trials=5)
    tailor.store.set_state(study, StudyState.RUNNING)  # as kill -9 leaves it
    assert tailor.store.acquire(study, "elsewhere:1:1", 60.0)
    with pytest.raises(InputError, match="is being run by elsewhere"):
        tailor.studies.edit(study, TuneRequest(SMALL))
    tailor.store.release(study, "elsewhere:1:1")
    assert tailor.studies.edit(study, TuneRequest(SMALL)).state is StudyState.PAUSED
    assert tailor.studies.run(study, lambda event: None).state is StudyState.COMPLETED


def test_a_larger_space_starts_from_the_defaults_of_what_is_new(tailor: Opened) -> None:
    study = stopped_after(tailor, replace(REQUEST, optimizer="dds", iterations=8, only=("cache",)), trials=5)
    small = len(tailor.store.get(study).space["parameters"])
    with pytest.raises(InputError, match="would stay as it is"):
        tailor.studies.edit(study, TuneRequest(SMALL, only=("cache",)))
    large = len(tailor.studies.edit(study, TuneRequest(SMALL)).space["parameters"])
    assert large > small
    finished = tailor.studies.run(study, lambda event: None)
    after = searched(tailor, study)
    assert [len(trial.configuration) for trial in after] == [small] * 4 + [large] * 4
    assert finished.best is not None
    assert tailor.results.summary(finished).best is not None


def test_a_study_starts_from_the_results_of_another(tailor: Opened) -> None:
    first = run(tailor, replace(REQUEST, optimizer="random", iterations=8))
    study = tailor.store.get(run(tailor, replace(REQUEST, iterations=3, history=(StudyId(first),))))
    known = searched(tailor, study.id)[0]
    assert known.label == "known"
    best = min(searched(tailor, first), key=lambda trial: trial.value or 0.0)
    assert known.configuration == best.configuration
    with pytest.raises(InputError, match="say nothing of limits"):
        tailor.studies.create(replace(REQUEST, history=(StudyId(first),), subject_to=("p99 <= 40",)))


def test_a_study_of_one_parameter(tailor: Opened) -> None:
    study = tailor.studies.prepared(replace(REQUEST, only=("cache.threads",)))
    assert [parameter["name"] for parameter in study.space["parameters"]] == ["cache.threads"]
