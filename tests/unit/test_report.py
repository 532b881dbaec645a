"""The report of a study: summary, page, terminal, files; from a real study on the pretend machine."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from framework.bench import Bench
from framework.cli import terminal
from framework.cli.progress import StudyProgress
from framework.compose import render
from framework.config.space import search_space
from framework.errors import InputError
from framework.model import Estimate, Step, Study, StudyPlan, StudyState, Sweep
from framework.model.decisions import ExpectedChange, SmallRecommendation
from framework.model.documents import encode
from framework.report.changes import Change
from framework.report.export import export
from framework.report.page import page
from framework.report.plots import sweep_plot
from framework.report.recommendation import lines_as_text, recommended, rest
from framework.report.summary import Level, Summary, summarise
from framework.report.summary_json import summary_document
from framework.study.planning import expected_windows
from framework.study.procedure import Procedure
from framework.testing.clock import VirtualClock
from framework.testing.pretend import (
    MACHINE,
    SENSITIVITY,
    PretendMachine,
    larger_is_faster,
    pretend_application,
    pretend_types,
)
from optimizer.space import Configuration
from tests.fakes import pretend_bench

PLAN = StudyPlan(
    "/somewhere/pretend", "random", {}, iterations=4, repetitions=2, warmup_s=2.0, window_s=20.0, rate_rps=100.0,
    seed=1, pairs=6, drift_every=0, rivals={"expert": {"cache.size": 12}},
)  # fmt: skip


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    machine = PretendMachine(VirtualClock(), larger_is_faster, noise=0.02)
    return pretend_bench(tmp_path_factory.mktemp("study"), machine)


@pytest.fixture(scope="module")
def printed() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def study(bench: Bench, printed: io.StringIO) -> Study:
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    new = Study("s1", "now", StudyState.CREATED, PLAN, "0", space.to_dict(), MACHINE, {"numpy": "2"}, "pretend")
    bench.store.create(new)
    with StudyProgress(Console(file=printed, width=200), PLAN) as progress:
        return Procedure(replace(bench, watch=progress), new, space).run()


@pytest.fixture(scope="module")
def summary(bench: Bench, study: Study) -> Summary:
    return summarise(study, bench.store.trials(study.id), bench.application, bench.types)


def test_the_summary_says_what_changed_and_how_sure_it_is(summary: Summary) -> None:
    assert summary.verdict is not None
    assert summary.headline.startswith("Improvement: ")
    assert "6 fresh interleaved pairs" in summary.headline
    assert "96.9 % interval" in summary.headline
    assert {change.parameter for change in summary.changes} <= {"size", "policy"}
    assert summary.default is not None
    assert summary.best is not None
    assert summary.default.fresh
    assert summary.best.value.value < summary.default.value.value
    assert summary.standins == ("cache:1",)


def test_the_progress_says_each_trial(printed: io.StringIO, study: Study) -> None:
    text = printed.getvalue()
    assert "trial 1 (default)" in text
    assert "best so far" in text
    assert text.count("(verdict pair") == 3 * PLAN.pairs
    assert expected_windows(PLAN) == 2 * 5 + 3 * 6


def test_the_page_stands_alone(bench: Bench, study: Study, summary: Summary) -> None:
    text = page(summary, bench.store.trials(study.id))
    assert summary.headline.replace("'", "&#39;") in text
    assert text.count("<svg") == 7
    assert "<script" not in text
    loaded = re.findall(r"(?:src|href)\s*=\s*[\"']([^\"']+)", text)
    assert [link for link in loaded if not link.startswith("#")] == []
    HTMLParser().feed(text)


def test_the_page_says_how_load_and_deployment_differ(bench: Bench, study: Study, summary: Summary) -> None:
    trials = bench.store.trials(study.id)
    assert "open loop at 100 requests/s" in page(summary, trials)
    closed = replace(bench.application, generator="locust")
    events = [{"id": i, "at": "now", "kind": "notes", "notes": ["web: ports are <left> out"]} for i in (1, 2)]
    other = page(summarise(study, trials, closed, bench.types, events=events), trials)
    assert "open loop at" not in other
    assert "Latency counts from the time a request was due" not in other
    assert "no open loop, but a closed loop: each request waits" in other
    assert other.count("<li>web: ports are &lt;left&gt; out</li>") == 1


def test_a_study_without_a_verdict_or_a_trial_has_a_page_too(bench: Bench, study: Study) -> None:
    early = summarise(replace(study, verdict=None, rivals={}), [], bench.application, bench.types)
    assert "no value yet" in early.headline
    assert "Trials" in page(early, [])


def test_the_terminal_says_what_json_says(summary: Summary) -> None:
    assert summary.equal_speed is None, "nobody measured the speed"
    written = io.StringIO()
    terminal.summary(Console(file=written, width=200), summary)
    document = json.loads(json.dumps(encode(summary_document(summary)), allow_nan=False))
    assert document["headline"] in written.getvalue()
    assert f"{document['best']['value']:.2f} ms" in written.getvalue()
    assert set(document["rivals"]) == {"expert", "default to expert"}


@pytest.mark.parametrize(("default", "best", "said"), [(129.0, 131.0, True), (129.0, 110.0, False)])
def test_levels_that_contradict_the_pairs_are_said_to(
    summary: Summary, default: float, best: float, said: bool
) -> None:
    """As WordPress's first study had it: 129 and 131 ms beside a log ratio of -0.207 [-0.546, -0.032]."""
    assert summary.verdict is not None
    assert not summary.disagreement
    log_ratio = Estimate(-0.207, -0.546, -0.032, 10)
    levels = [Level(1, Estimate(value, 0.9 * value, 1.1 * value, 10), fresh=True) for value in (default, best)]
    shown = replace(summary, verdict=replace(summary.verdict, log_ratio=log_ratio), default=levels[0], best=levels[1])
    assert bool(shown.disagreement) == said
    assert any("contradict the verdict" in note for note in terminal.notes(shown)) == said


@pytest.mark.parametrize(("columns", "explained"), [(60, False), (200, True)])
def test_what_changes_is_readable_in_any_terminal(summary: Summary, columns: int, explained: bool) -> None:
    several = [replace(summary.changes[0], service=f"service-{i}", parameter="a" * 25) for i in range(9)]
    written = io.StringIO()
    terminal.summary(Console(file=written, width=columns), replace(summary, changes=tuple(several)))
    said = written.getvalue()
    assert said.count("a" * 25) == 1, "parameters of one name share a row, and no name is cut"
    [row] = [line for line in said.splitlines() if "a" * 25 in line]
    assert "9" in row.split(), "services are counted: a change is a line to read"
    assert "the report names the services" in said
    assert ("what it is for" in said) == explained


def test_what_the_machine_itself_did_is_taken_out(tmp_path: Path) -> None:
    """On a machine whose speed varies by 15 % between windows a gain of 6 % is not seen, and at equal speed it is."""
    unsteady = PretendMachine(
        VirtualClock(), lambda c: 10.0 if c["cache.size"] == 10 else 9.4, noise=0.01, speed_noise=0.15
    )
    bench = pretend_bench(tmp_path, unsteady)
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    plan = replace(PLAN, pairs=10, rivals={"expert": {"cache.size": 12}})
    new = Study("s1", "now", StudyState.CREATED, plan, "0", space.to_dict(), MACHINE, {}, "pretend")
    bench.store.create(new)
    study = Procedure(bench, new, space).run()
    trials = bench.store.trials("s1")
    summary = summarise(study, trials, bench.application, bench.types)
    assert summary.verdict is not None
    assert summary.verdict.statement == "no improvement shown"
    assert summary.equal_speed is not None
    assert summary.equal_speed.verdict is not None
    assert summary.equal_speed.verdict.statement == "improvement"
    gain, sensitivity = summary.equal_speed.verdict.gain, summary.equal_speed.sensitivity
    assert gain.low < 0.06 < gain.high
    assert gain.high - gain.low < 0.06
    assert abs(sensitivity.slope - SENSITIVITY) < 4 * sensitivity.error
    told = [trial.told_value for trial in trials if trial.purpose == "search" and trial.told_value is not None]
    assert max(told) / min(told) < 1.3, "the optimizer is told what the configurations did"
    written = io.StringIO()
    terminal.summary(Console(file=written, width=200), summary)
    assert "At equal speed of the machine: gain" in written.getvalue()
    assert "default to expert: gain" in written.getvalue()
    assert written.getvalue().count("at equal speed gain") == 2
    assert "At equal speed" in page(summary, trials)
    document = json.loads(json.dumps(encode(summary_document(summary)), allow_nan=False))
    assert document["equal_speed"]["verdict"]["statement"] == "improvement"


def test_the_best_is_exported_ready_to_deploy(bench: Bench, tmp_path: Path) -> None:
    default = search_space(bench.application, bench.types, cores=2, memory_mib=4096).default()
    best = Configuration({**default, "cache.size": 77})
    files = export(bench.application, bench.types, default, best, "s1", tmp_path / "out")
    assert {"compose.yaml", "configuration.yaml", "changes.diff", "README.md"} <= set(files)
    assert "77" in (tmp_path / "out" / "compose.yaml").read_text()
    assert "tailor.study" not in (tmp_path / "out" / "compose.yaml").read_text()
    assert re.search(r"^\+.*77", (tmp_path / "out" / "changes.diff").read_text(), flags=re.MULTILINE)
    with pytest.raises(InputError, match="not empty"):
        export(bench.application, bench.types, default, best, "s1", tmp_path / "out")


def test_the_pretend_application_renders(tmp_path: Path) -> None:
    deployment = render(
        pretend_application(tmp_path), pretend_types(), Configuration({"cache.size": 3}), project="p", labels={"a": "b"}
    )
    assert deployment.documents


def test_a_sweep_is_drawn_with_and_without_a_knee(summary: Summary) -> None:
    assert summary.default is not None
    step = Step(100.0, summary.default.value, True, "")
    lost = Step(200.0, None, False, "overloaded")
    with_knee = sweep_plot(Sweep("app", 50.0, (step, lost), 100.0, True, 60.0, "the knee"))
    assert "knee 100/s" in with_knee
    assert "knee" not in sweep_plot(Sweep("app", 50.0, (lost,), None, True, None, "none"))


@pytest.mark.parametrize(("text", "seconds"), [("20s", 20.0), ("500ms", 0.5), ("1.5m", 90.0), ("2h", 7200.0)])
def test_durations(text: str, seconds: float) -> None:
    assert terminal.seconds("--duration", text) == seconds


@pytest.mark.parametrize("text", ["", "20", "s", "-1s", "1 year", "1e3s"])
def test_durations_that_are_none_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(InputError, match="such as 20s"):
        terminal.seconds("--duration", text)


def test_limits_are_numbers() -> None:
    assert terminal.limits(["stolen_cpu=0.1"]) == {"stolen_cpu": 0.1}
    with pytest.raises(InputError, match="name=value"):
        terminal.limits(["stolen_cpu"])


def test_changes_of_tied_parameters_are_one_line(study: Study) -> None:
    changes = [
        Change("text", "threads", 2, 1, "", "Threads.", "workers"),
        Change("nginx", "keepalive", 0, 64, "", "Idle connections.", ""),
        Change("media", "threads", 2, 4, "", "Threads.", "workers"),
        Change("user", "threads", 2, 1, "", "Threads.", "workers"),
        Change("user", "heap", 100, 80, "%", "Heap.", ""),
    ]
    lines = recommended(study, changes)
    assert [(line.parameter, line.default, line.value, line.where) for line in lines] == [
        ("threads", "2", "1", "2 services: text, user"),
        ("keepalive", "0", "64", "nginx"),
        ("threads", "2", "4", "media"),
        ("heap", "100 %", "80 %", "user"),
    ]
    assert {line.effect for line in lines} == {""}
    assert rest(lines) == ""


def test_lines_say_what_is_expected_and_shown(study: Study, summary: Summary) -> None:
    assert summary.verdict is not None
    predicted = (
        ExpectedChange(("user.heap",), 80, math.log(0.9), 0.05, "memory"),
        ExpectedChange(("text.threads", "user.threads"), 1, math.log(0.7), 0.1),
    )
    decided = replace(study.decisions, small=SmallRecommendation({}, {}, predicted))
    known = replace(study, decisions=decided, rivals={"without user.heap": summary.verdict})
    changes = [
        Change("text", "threads", 2, 1, "", "Threads.", "workers"),
        Change("user", "threads", 2, 1, "", "Threads.", "workers"),
        Change("user", "heap", 100, 80, "%", "Heap.", ""),
    ]
    threads, heap = recommended(known, changes)
    assert threads.effect == "+30.0 % [+14.8, +42.5] expected"
    assert heap.expected is not None
    assert heap.effect.startswith("+10.0 % [+0.7, +18.4] expected, +")
    assert heap.effect.endswith("] shown")
    assert lines_as_text([heap])[0].startswith("heap 80 % (default 100 %) in user; +10.0 %")
    assert lines_as_text([heap])[0].endswith("; can cost memory")
    part = recommended(known, changes[:1])
    assert part[0].effect == "", "a part of a change has another effect"


@pytest.mark.parametrize("count", [10, 11, 40])
def test_ten_lines_and_what_the_rest_is(study: Study, summary: Summary, bench: Bench, count: int) -> None:
    many = tuple(Change(f"s{n}", f"p{n}", 1, 2, "", "It is for this.", "") for n in range(count))
    shown = replace(summary, changes=many)
    written = io.StringIO()
    terminal.summary(Console(file=written, width=300), shown)
    assert written.getvalue().count("It is for this.") == 10
    assert ("further changes" in written.getvalue()) == (count > 10)
    assert len(lines_as_text(shown.recommended)) == (10 if count == 10 else 11)
    text = page(shown, bench.store.trials(study.id))
    assert text.count("It is for this.") == count, "the report has all"
    if count == 40:
        expected = "and 30 further changes (30 parameters in 30 services: p10, p11, p12, p13, p14, ...)"
        assert shown.rest == expected
        assert lines_as_text(shown.recommended)[-1] == expected
    assert len(summary_document(shown)["recommended"]) == count
