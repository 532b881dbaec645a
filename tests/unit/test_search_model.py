"""The model of a study: for every optimizer, in the summary, on the page, at the terminal and in JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from framework.bench import Bench
from framework.cli import terminal
from framework.config.space import search_space
from framework.model import Study, StudyPlan, StudyState
from framework.model.decisions import SearchEnd
from framework.model.documents import encode
from framework.report.page import MODEL_FIT, page
from framework.report.search_model import fit_in_words, outlook_in_words
from framework.report.summary import summarise
from framework.report.summary_json import summary_document
from framework.study.procedure import Procedure
from framework.study.search_model import Outlook, SearchModel, search_model
from framework.testing.clock import VirtualClock
from framework.testing.pretend import MACHINE, PretendMachine, larger_is_faster
from optimizer.analysis.model_fit import ModelFit
from tests.fakes import pretend_bench

PLAN = StudyPlan(
    "app", "random", {}, iterations=14, repetitions=2, warmup_s=2.0, window_s=20.0, rate_rps=100.0, seed=1, pairs=6,
    drift_every=0,
)  # fmt: skip


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return pretend_bench(tmp_path_factory.mktemp("study"), PretendMachine(VirtualClock(), larger_is_faster, noise=0.02))


@pytest.fixture(scope="module")
def study(bench: Bench) -> Study:
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    new = Study("s1", "now", StudyState.CREATED, PLAN, "0", space.to_dict(), MACHINE, {}, "pretend")
    bench.store.create(new)
    return Procedure(bench, new, space).run()


def test_any_optimizer_has_a_model(bench: Bench, study: Study) -> None:
    trials = bench.store.trials("s1")
    model = search_model(study, trials)
    assert model is not None
    assert model.fit.orders
    by_number = {trial.number: trial for trial in trials}
    assert len(model.trials) == len(model.fit.points) == 15
    for number, point in zip(model.trials, model.fit.points, strict=True):
        assert by_number[number].configuration == point.configuration
        assert by_number[number].told_value == pytest.approx(point.measured)
    assert search_model(study, trials[:7]) is None


def test_the_noise_is_that_of_the_verdict(bench: Bench, study: Study) -> None:
    trials = bench.store.trials("s1")
    model = search_model(study, trials)
    alone = search_model(replace(study, plan=replace(PLAN, pairs=0)), trials)
    assert model is not None
    assert alone is not None
    assert model.outlook is not None
    assert alone.outlook is not None
    last = next(trial for trial in reversed(trials) if trial.purpose == "search")
    assert alone.outlook.noise == last.standard_error
    assert last.standard_error is not None
    assert model.outlook.noise == pytest.approx(last.standard_error * (2 * 2 / 6) ** 0.5)


def test_terminal_page_and_json_say_the_same(bench: Bench, study: Study) -> None:
    trials = bench.store.trials("s1")
    summary = summarise(study, trials, bench.application, bench.types)
    written = io.StringIO()
    terminal.summary(Console(file=written, width=200), summary)
    model = json.loads(json.dumps(encode(summary_document(summary)), allow_nan=False))["model"]
    text = page(summary, trials)
    assert MODEL_FIT in text
    for part in ("fit", "next_trial"):
        assert model[part]["statement"] in written.getvalue()
        assert model[part]["statement"] in text
    assert "the model orders configurations better than chance" in model["fit"]["statement"]
    assert len(model["fit"]["predictions"]) == 15
    short = summarise(study, trials, bench.application, bench.types, with_model=False)
    assert summary_document(short)["model"] is None
    assert MODEL_FIT not in page(short, trials)


def test_an_outlook_is_said_with_its_numbers() -> None:
    little, less, more = Outlook(0.003, 0.019, 75.2), Outlook(0.009, 0.019, None), SearchEnd(12, 0.25, 0.019)
    assert (
        outlook_in_words(little, verdict=True)
        == "another trial (75 s) is expected to gain 0.3 %, less than a quarter of the noise of the verdict, 1.9 %"
    )
    assert "0.9 %, less than the noise of the verdict, 1.9 %" in outlook_in_words(less, verdict=True)
    assert "25 %, more than the noise of a trial, 1.9 %" in outlook_in_words(more, verdict=False)


def test_a_study_from_an_edited_space_keeps_what_fits(bench: Bench, study: Study, tmp_path: Path) -> None:
    """A parameter that is left out was at its default in few trials; fewer than eight fit, and there is no model."""
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    fewer = space.subset(["cache.size"])
    assert search_model(replace(study, space=fewer.to_dict()), bench.store.trials("s1")) is None


@pytest.mark.parametrize(
    ("low", "density", "says"),
    [
        (0.2, 1.0, "the model orders configurations better than chance ("),
        (0.2, -1.0, "ranks are better than chance, and it predicts values no better than a constant does ("),
        (-0.2, 1.0, "ranks are no better than chance, and it predicts values better than a constant does ("),
        (-0.2, -1.0, "ranks are no better than chance, and it predicts values no better than a constant does ("),
    ],
)
def test_the_sentence_says_which_of_both_is_missing(low: float, density: float, says: str) -> None:
    assert says in fit_in_words(SearchModel(ModelFit((), 0.82, low, 0.97, density, 0.0), (), None))
