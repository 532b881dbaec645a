"""Report, export, import and history of studies of several request rates, on a pretend machine."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framework.config.space import search_space
from framework.errors import InputError, TrialFailed
from framework.model import (
    Measurement,
    Objective,
    StudyId,
    Term,
    TuneRequest,
)
from framework.report.page import page
from framework.study.warm_start import history
from tests.fakes import pretend_tailor
from tests.rated_machine import (
    PLAN,
    RATES,
    SMALL,
    better_at_high_rates_only,
    machine,
    own_ratio,
    start,
    summary_of,
    trials_of,
)


def test_the_report_and_the_documents_say_what_each_rate_gains(tmp_path: Path) -> None:
    bench, procedure = start(tmp_path, machine(noise=0.02))
    procedure.run()
    summary = summary_of(bench)
    assert summary.objective == "p95, worst of 3 rates"
    assert summary.unit == "times the default"
    assert summary.default is not None
    assert summary.best is not None
    assert summary.default.value.value == 1.0
    assert summary.best.value.low < summary.best.value.value < 1.0
    assert "at the worst of 3 rates (100 requests/s)" in summary.headline
    html = page(summary, trials_of(bench))
    assert html.count("<td>improvement</td>") == 3
    assert "open loop at 100, 200 and 300 requests/s (worst case)" in html
    assert "Latency distribution at 300 requests/s" in html
    assert " at 200/s</span>" in html


def test_an_objective_of_zero_ends_the_study_with_its_reason(tmp_path: Path) -> None:
    objective = Objective(terms=(Term("errors"),))
    _, procedure = start(tmp_path, machine(), objective=objective)
    with pytest.raises(TrialFailed, match="a ratio, by which several rates are compared, needs values above 0"):
        procedure.run()


# ---------------------------------------------------------------------- above the procedure

REQUEST = TuneRequest(SMALL, rates=RATES, iterations=4, repetitions=2, pairs=6, drift_every=0, minimal=0)


def test_an_export_arrives_as_it_was(tmp_path: Path) -> None:
    places = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        places.append(pretend_tailor(tmp_path / name, machine(lambda c, rate: rate / 10, noise=0.05))[0])
    here, there = places
    study = here.studies.run(here.studies.create(REQUEST).id, lambda event: None)
    assert study.plan.rates == RATES
    assert study.plan.rate_rps == 300.0
    path = tmp_path / "study.zip"
    path.write_bytes(here.sharing.pack(study.id))
    arrived = there.sharing.unpack(path)
    assert (arrived.plan.rates, arrived.plan.over, arrived.verdict) == (RATES, "worst", study.verdict)
    for sent, received in zip(here.store.trials(study.id), there.store.trials(study.id), strict=True):
        assert sent.measurements == received.measurements
        for first, second in zip(sent.measurements, received.measurements, strict=True):
            assert first.rate_rps == second.rate_rps
            np.testing.assert_array_equal(first.latencies_ms, second.latencies_ms)
    for place in places:
        place.close()


def test_a_plan_of_impossible_rates_is_not_imported(tmp_path: Path) -> None:
    here, _ = pretend_tailor(tmp_path, machine(lambda c, rate: rate / 10))
    study = here.studies.create(REQUEST)
    packed = zipfile.ZipFile(io.BytesIO(here.sharing.pack(study.id)))
    document = json.loads(packed.read("study.json"))
    here.studies.delete(study.id)
    for changes in ({"rates": [300.0, 100.0]}, {"weights": [1.0]}, {"over": "median"}, {"rates": [1.0]}):
        path = tmp_path / "changed.zip"
        with zipfile.ZipFile(path, "w") as file:
            changed = {**document, "study": {**document["study"], "plan": {**document["study"]["plan"], **changes}}}
            file.writestr("study.json", json.dumps(changed))
        with pytest.raises(InputError, match=r"study\.json cannot be read"):
            here.sharing.unpack(path)
    here.close()


def test_results_of_several_rates_start_another_study(tmp_path: Path) -> None:
    bench, procedure = start(tmp_path, machine(better_at_high_rates_only), replace(PLAN, over="mean"))
    procedure.run()
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    [imported] = history((StudyId("s1"),), Objective(), space, bench.store)
    ratios = {result.values["cache.size"]: result.log_ratio for result in imported.results}
    for trial in trials_of(bench, "search"):
        logs = [np.log(own_ratio(better_at_high_rates_only, trial.configuration, rate)) for rate in RATES]
        assert ratios[trial.configuration["cache.size"]] == pytest.approx(np.mean(logs), abs=0.02)


def test_windows_of_one_rate_have_no_rate_of_their_own(tmp_path: Path) -> None:
    bench, procedure = start(tmp_path, machine(), replace(PLAN, rates=(), rate_rps=100.0, iterations=2))
    procedure.run()
    windows: list[Measurement] = [m for t in trials_of(bench) for m in t.measurements]
    assert {m.rate_rps for m in windows} == {None}
    [default] = trials_of(bench, "default")
    assert default.value == pytest.approx(10.0 * np.exp(0.5 * 1.645), rel=0.1), "in milliseconds"
