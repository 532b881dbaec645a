"""A study's events as spans: study > trial > repetition > phase > step.

An event says that something begins.  What was open at its level, or below it, ends then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from framework.bench import Watch
from framework.model import Study, Trial, TrialState
from framework.ports.telemetry import SpanSink

STUDY, TRIAL, REPETITION, PHASE, STEP = range(5)
BETWEEN = ("ask", "tell")  # phases of a study that belong to no trial


@contextmanager
def observed(sinks: Sequence[SpanSink], study: Study, watch: Watch) -> Iterator[Watch]:
    """``watch``, telling the sinks on the way.  Spans that are open when the study stops end then."""
    watching = [_Observed(sink, study) for sink in sinks]

    def told(kind: str, data: Mapping[str, Any]) -> None:
        for one in watching:
            one(kind, data)
        watch(kind, data)

    error = "interrupted"
    try:
        yield told
        error = ""
    except Exception as stopped:
        error = str(stopped)
        raise
    finally:
        for one in watching:
            one.stop(error)


@dataclass
class _Observed:
    sink: SpanSink
    study: Study
    open: list[tuple[int, str, object]] = field(default_factory=list)  # (level, name, span), outermost first

    def __post_init__(self) -> None:
        plan = self.study.plan
        about = {"study": self.study.id, "application": self.study.application_name, "optimizer": plan.optimizer,
                 "testbed": self.study.testbed, "modelled": self.study.modelled}  # fmt: skip
        self._begin(STUDY, "study", about)

    def __call__(self, kind: str, data: Mapping[str, Any]) -> None:
        handler = getattr(self, "_on_" + kind.replace(" ", "_"), None)
        if handler is not None:
            handler(data)

    def stop(self, error: str) -> None:
        self._end(STUDY, {}, error)
        self.sink.flush()

    # ------------------------------------------------------------------ one method per kind of event

    def _on_seed(self, data: Mapping[str, Any]) -> None:
        if not self._is_open(TRIAL, "seed"):
            self._begin(TRIAL, "seed")
        self._begin(STEP, data["step"])

    def _on_model(self, data: Mapping[str, Any]) -> None:
        if not self._is_open(TRIAL, "ask the twin"):
            self._begin(TRIAL, "ask the twin", {"configurations": data["total"]})

    def _on_waiting(self, data: Mapping[str, Any]) -> None:
        self._begin(TRIAL, "waiting", {"reason": data["reason"]})

    def _on_trial(self, data: Mapping[str, Any]) -> None:
        self._begin(TRIAL, "trial", {"trial": data["number"], "purpose": data["purpose"]})

    def _on_phase(self, data: Mapping[str, Any]) -> None:
        name = data["phase"]
        if name in BETWEEN:
            self._begin(TRIAL, name)
        elif "step" in data:
            self._begin(STEP, data["step"])
        else:
            if not any(level == REPETITION for level, _, _ in self.open):
                self._begin(REPETITION, "repetition")
            self._begin(PHASE, name)

    def _on_repetition(self, data: Mapping[str, Any]) -> None:
        found = data["measurement"]
        about = {"repetition": found.repetition, "attempt": found.attempt, "valid": not found.invalid}
        if found.value is not None:
            about["value"] = found.value
        self._end(REPETITION, about, "; ".join(found.invalid))

    def _on_trial_finished(self, data: Mapping[str, Any]) -> None:
        trial: Trial = data["trial"]
        about: dict[str, Any] = {"state": str(trial.state)}
        if trial.value is not None:
            about["value"] = trial.value
        self._end(TRIAL, about, "" if trial.state is TrialState.COMPLETED else trial.reason or str(trial.state))

    # ------------------------------------------------------------------ inside

    def _is_open(self, level: int, name: str) -> bool:
        return any((one, other) == (level, name) for one, other, _ in self.open)

    def _begin(self, level: int, name: str, attributes: Mapping[str, Any] | None = None) -> None:
        self._end(level)
        parent = self.open[-1][2] if self.open else None
        self.open.append((level, name, self.sink.begin(self.study.id, name, parent, attributes or {})))

    def _end(self, level: int, attributes: Mapping[str, Any] | None = None, error: str = "") -> None:
        """End what is open at this level or below it; what is said belongs to the one at this level."""
        while self.open and self.open[-1][0] >= level:
            one, _, span = self.open.pop()
            said = (attributes or {}, error) if one == level else ({}, "")
            self.sink.end(span, *said)
