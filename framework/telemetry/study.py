"""Spans from a study's events: study > trial > repetition > phase > step.

An event that begins a span first ends the open spans of its level and below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from framework.bench import Watch
from framework.model import Measurement, Study, Trial, TrialState
from framework.model.events import (
    DatasetStepStarted,
    Event,
    OnTestbed,
    PhaseStarted,
    PhaseStepStarted,
    RepetitionFinished,
    TrialFinished,
    TrialStarted,
    TwinAsked,
    WaitStarted,
)
from framework.ports.telemetry import SpanSink

STUDY, TRIAL, REPETITION, PHASE, STEP = range(5)
BETWEEN = ("ask", "tell")  # phases of a study that belong to no trial


@contextmanager
def observed(sinks: Sequence[SpanSink], study: Study, watch: Watch) -> Iterator[Watch]:
    """Wrap ``watch`` so that the sinks get spans, too.  Spans that are open when the study stops end then."""
    observers = [_Observer(sink, study) for sink in sinks]

    def observe(event: Event) -> None:
        for observer in observers:
            observer(event)
        watch(event)

    error = "interrupted"
    try:
        yield observe
        error = ""
    except Exception as stopped:
        error = str(stopped)
        raise
    finally:
        for observer in observers:
            observer.stop(error)


@dataclass
class _Observer:
    """One study's open spans in one sink."""

    sink: SpanSink
    study: Study
    open: list[tuple[int, str, object]] = field(default_factory=list)  # (level, name, span), outermost first
    of_testbeds: dict[str, _Observer] = field(default_factory=dict)  # of testbeds whose trials run at the same time

    def __post_init__(self) -> None:
        plan = self.study.plan
        about = {"study": self.study.id, "application": self.study.application_name, "optimizer": plan.optimizer,
                 "testbed": self.study.testbed, "modelled": self.study.modelled}  # fmt: skip
        self._begin(STUDY, "study", about)

    def __call__(self, event: Event) -> None:
        match event:
            case OnTestbed(testbed, inner):
                if testbed not in self.of_testbeds:
                    self.of_testbeds[testbed] = _Observer(self.sink, replace(self.study, testbed=testbed))
                self.of_testbeds[testbed](inner)
            case DatasetStepStarted(step):
                self._begin_unless_open("seed")
                self._begin(STEP, step)
            case TwinAsked(total=total):
                self._begin_unless_open("ask the twin", {"configurations": total})
            case WaitStarted(reason=reason):
                self._begin(TRIAL, "waiting", {"reason": reason})
            case TrialStarted(number, purpose):
                self._begin(TRIAL, "trial", {"trial": number, "purpose": purpose})
            case PhaseStarted(phase) if phase in BETWEEN:
                self._begin(TRIAL, phase)
            case PhaseStarted(phase):
                self._begin_phase(phase)
            case PhaseStepStarted(step=step):
                self._begin(STEP, step)
            case RepetitionFinished(measurement=measurement):
                self._end_repetition(measurement)
            case TrialFinished(trial):
                self._end_trial(trial)

    def stop(self, error: str) -> None:
        for observer in self.of_testbeds.values():
            observer.stop(error)
        self._end(STUDY, {}, error)
        self.sink.flush()

    # ------------------------------------------------------------------ inside

    def _begin_phase(self, name: str) -> None:
        if not any(level == REPETITION for level, _, _ in self.open):
            self._begin(REPETITION, "repetition")
        self._begin(PHASE, name)

    def _end_repetition(self, measured: Measurement) -> None:
        about: dict[str, Any] = {"repetition": measured.repetition, "attempt": measured.attempt}
        about["valid"] = not measured.invalid
        if measured.rate_rps is not None:
            about["rate_rps"] = measured.rate_rps
        if measured.value is not None:
            about["value"] = measured.value
        self._end(REPETITION, about, "; ".join(measured.invalid))

    def _end_trial(self, trial: Trial) -> None:
        about: dict[str, Any] = {"state": str(trial.state)}
        if trial.value is not None:
            about["value"] = trial.value
        self._end(TRIAL, about, "" if trial.state is TrialState.COMPLETED else trial.reason or str(trial.state))

    def _begin_unless_open(self, name: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Begin a span at the trials' level, unless it is open already: several events in a row share it."""
        if not any((level, other) == (TRIAL, name) for level, other, _ in self.open):
            self._begin(TRIAL, name, attributes)

    def _begin(self, level: int, name: str, attributes: Mapping[str, Any] | None = None) -> None:
        self._end(level)
        parent = self.open[-1][2] if self.open else None
        self.open.append((level, name, self.sink.begin(self.study.id, name, parent, attributes or {})))

    def _end(self, level: int, attributes: Mapping[str, Any] | None = None, error: str = "") -> None:
        """End the open spans at this level and below; attributes and error go to the one at this level."""
        while self.open and self.open[-1][0] >= level:
            ended, _, span = self.open.pop()
            about = (attributes or {}, error) if ended == level else ({}, "")
            self.sink.end(span, *about)
