"""Tailor's own spans: a tree that says where a study's time went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from framework.bootstrap.adapters import Opened
from framework.errors import Interrupted
from framework.model import Study, Trial, TrialState, TuneRequest
from framework.model.events import (
    DatasetStepStarted,
    Event,
    NotesGiven,
    PhaseStarted,
    PhaseStepStarted,
    RepetitionFinished,
    TrialFinished,
    TrialStarted,
    TwinAsked,
    WaitStarted,
)
from framework.telemetry import observed
from framework.telemetry.otlp import resource
from framework.testing import examples
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from optimizer.space import Configuration
from tests.fakes import pretend_tailor

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"
REQUEST = TuneRequest(SMALL, rate_rps=100.0, iterations=3, repetitions=2, pairs=3, drift_every=0, minimal=0)


@dataclass
class Span:
    study: str
    name: str
    parent: Span | None
    attributes: dict[str, Any]
    ended: int = 0
    error: str = ""

    @property
    def path(self) -> str:
        return f"{self.parent.path}/{self.name}" if self.parent else self.name


@dataclass
class Sink:
    spans: list[Span] = field(default_factory=list)
    flushed: int = 0

    def begin(self, study: str, name: str, parent: object | None, attributes: Mapping[str, Any]) -> object:
        assert parent is None or (isinstance(parent, Span) and not parent.ended), "a parent is open"
        self.spans.append(Span(study, name, parent, dict(attributes)))
        return self.spans[-1]

    def end(self, span: object, attributes: Mapping[str, Any], error: str) -> None:
        assert isinstance(span, Span)
        span.attributes |= attributes
        span.ended += 1
        span.error = error

    def flush(self) -> None:
        self.flushed += 1


def watched(directory: Path, machine: PretendMachine, sink: Sink) -> Opened:
    tailor, _ = pretend_tailor(directory, machine, observed=partial(observed, [sink]))
    return tailor


def run(tailor: Opened) -> Study:
    return tailor.studies.run(tailor.studies.create(REQUEST).id, lambda event: None)


def test_a_study_is_a_tree(tmp_path: Path) -> None:
    sink = Sink()
    tailor = watched(tmp_path, PretendMachine(VirtualClock(), lambda configuration: 10.0, noise=0.01), sink)
    study = run(tailor)
    assert {span.ended for span in sink.spans} == {1}, "every span ends, once"
    assert sink.flushed == 1
    trials = tailor.store.trials(study.id)
    assert [span.attributes["trial"] for span in sink.spans if span.name == "trial"] == [
        trial.number for trial in trials
    ]
    assert [s.attributes.get("value") for s in sink.spans if s.name == "trial"] == [trial.value for trial in trials]
    paths = {span.path for span in sink.spans}
    for phase in ("render", "deploy", "prepare", "load", "read", "evaluate"):
        assert f"study/trial/repetition/{phase}" in paths
    assert {"study/ask", "study/tell", "study/seed"} <= paths
    repetitions = [span for span in sink.spans if span.name == "repetition"]
    assert len(repetitions) == sum(len(trial.measurements) for trial in trials)
    root = sink.spans[0]
    assert root.attributes["study"] == study.id
    assert root.attributes["modelled"] is False
    tailor.close()


def test_what_fails_says_why(tmp_path: Path) -> None:
    sink = Sink()
    machine = PretendMachine(VirtualClock(), lambda configuration: 10.0, noise=0.01)

    def stop(count: int) -> None:
        if count == 4:
            raise Interrupted("enough")

    machine.on_deploy = stop
    tailor = watched(tmp_path, machine, sink)
    with pytest.raises(Interrupted):
        run(tailor)
    assert {span.ended for span in sink.spans} == {1}
    assert "paused" in sink.spans[0].error
    tailor.close()


def test_each_event_begins_or_ends_its_span() -> None:
    trial = Trial("s", 1, "default", Configuration({}), TrialState.FAILED, reason="no start")
    happened: list[Event] = [
        NotesGiven(("no span",)),
        DatasetStepStarted("copying"),
        DatasetStepStarted("seeding"),
        TrialStarted(1, "default"),
        PhaseStarted("deploy"),
        PhaseStepStarted("deploy", "start"),
        PhaseStepStarted("deploy", "healthy"),
        PhaseStarted("load"),
        RepetitionFinished(1, replace(examples.measurement(), invalid=("stolen CPU",))),
        TrialFinished(trial),
        WaitStarted("the engine is away", 5.0),
        TwinAsked(1, 9),
        TwinAsked(9, 9),
        PhaseStarted("ask"),
    ]
    sink, passed_on = Sink(), list[Event]()
    with observed([sink], replace(examples.study(), testbed="external"), passed_on.append) as watch:
        for event in happened:
            watch(event)
    assert passed_on == happened
    assert [span.path for span in sink.spans] == [
        "study",
        "study/seed",
        "study/seed/copying",
        "study/seed/seeding",
        "study/trial",
        "study/trial/repetition",
        "study/trial/repetition/deploy",
        "study/trial/repetition/deploy/start",
        "study/trial/repetition/deploy/healthy",
        "study/trial/repetition/load",
        "study/waiting",
        "study/ask the twin",
        "study/ask",
    ]
    by_name = {span.name: span for span in sink.spans}
    assert by_name["trial"].attributes == {"trial": 1, "purpose": "default", "state": "failed"}
    assert by_name["trial"].error == "no start"
    assert by_name["repetition"].attributes == {"repetition": 0, "attempt": 0, "valid": False, "value": 12.5}
    assert by_name["repetition"].error == "stolen CPU"
    assert by_name["waiting"].attributes == {"reason": "the engine is away"}
    assert by_name["ask the twin"].attributes == {"configurations": 9}
    assert {span.ended for span in sink.spans} == {1}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "tailor"),
        ({"OTEL_SERVICE_NAME": "ours"}, "ours"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs"}, "theirs"),
    ],
)
def test_spans_are_tailors_unless_somebody_says_otherwise(
    given: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(key, raising=False)
    for key, value in given.items():
        monkeypatch.setenv(key, value)
    assert resource().attributes["service.name"] == name
