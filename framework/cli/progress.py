"""What a person sees while a study runs: phase, trial, incumbent, time left.

On a terminal this is a progress bar; elsewhere one line per trial, so that a log stays readable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from framework.model import Measurement, StudyPlan, Trial, TrialState
from framework.study.observations import PRIOR
from framework.study.planning import expected_repetitions


class StudyProgress:
    """A watch for ``Tailor.run``; use as a context manager."""

    def __init__(self, console: Console, plan: StudyPlan) -> None:
        self._console = console
        self._plan = plan
        self._incumbent: float | None = None
        self._trial = ""
        self._bar = Progress(
            TextColumn("[bold]{task.fields[trial]}[/]"),
            TextColumn("{task.fields[phase]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("best {task.fields[best]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            transient=True,
        )
        self._task: TaskID = self._bar.add_task(
            "", total=expected_repetitions(plan), trial="starting", phase="", best="-"
        )

    def __enter__(self) -> StudyProgress:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, kind: str, data: Mapping[str, Any]) -> None:
        handler = getattr(self, "_on_" + kind.replace(" ", "_"), None)
        if handler is not None:
            handler(data)

    # ------------------------------------------------------------------ one method per kind of event

    def _on_notes(self, data: Mapping[str, Any]) -> None:
        for note in data["notes"]:
            self._console.print(note, markup=False, soft_wrap=True)

    def _on_seed(self, data: Mapping[str, Any]) -> None:
        self._bar.update(self._task, trial="data", phase=str(data["step"]))

    def _on_phase(self, data: Mapping[str, Any]) -> None:
        step = f": {data['step']}" if "step" in data else ""
        self._bar.update(self._task, phase=f"{data['phase']}{step}")

    def _on_trial(self, data: Mapping[str, Any]) -> None:
        self._trial = f"{data['purpose']} {data['number']}"
        self._bar.update(self._task, trial=self._trial, phase="")

    def _on_repetition(self, data: Mapping[str, Any]) -> None:
        measurement: Measurement = data["measurement"]
        if measurement.invalid:
            reasons = "; ".join(measurement.invalid)
            self._console.print(
                f"[yellow]{self._trial}: repetition {measurement.repetition + 1} does not count: {reasons}"
            )
        else:
            self._bar.advance(self._task)

    def _on_trial_finished(self, data: Mapping[str, Any]) -> None:
        trial: Trial = data["trial"]
        better = False
        if trial.value is not None and trial.purpose in ("default", "search"):
            better = self._incumbent is None or trial.value < self._incumbent
            self._incumbent = trial.value if better else self._incumbent
        self._bar.update(self._task, best="-" if self._incumbent is None else f"{self._incumbent:.1f}")
        mark = " [green]best so far[/]" if better and trial.purpose == "search" else ""
        if trial.state is TrialState.COMPLETED:
            error = f" +-{100 * trial.standard_error:.0f} %" if trial.standard_error else ""
            self._console.print(f"{self._name(trial)}: {trial.value:.2f}{error}{mark}")
        else:
            self._console.print(f"{self._name(trial)}: [red]{trial.state}[/] {trial.reason}")

    def _on_plan_changed(self, data: Mapping[str, Any]) -> None:
        if data["why"] == "minimal":
            count = len(data["extra"]["minimal"])
            total = (self._bar.tasks[self._task].total or 0.0) + self._plan.pairs * (1 + count) * bool(count)
            self._bar.update(self._task, total=total)
            self._console.print(f"smaller recommendations to try: {count or 'none'}")
            return
        if data["why"] == PRIOR:
            best = math.exp(min(one["log_ratio"] for one in data["extra"][PRIOR]))
            self._console.print(f"the twin was asked: its best has {best:.2f} times the default's p95, modelled")
            return
        changes = ", ".join(f"{name} {value}" for name, value in data.items() if name not in ("why", "extra"))
        self._console.print(f"{data['why']}: {changes}")

    def _on_model(self, data: Mapping[str, Any]) -> None:
        self._bar.update(self._task, trial="the twin", phase=f"{data['done']} of {data['total']} configurations asked")

    def _on_waiting(self, data: Mapping[str, Any]) -> None:
        self._console.print(f"[yellow]waiting {data['seconds']:.0f} s: {data['reason']}")

    def _name(self, trial: Trial) -> str:
        place = f" pair {trial.pair + 1}" if trial.pair is not None else ""
        return f"trial {trial.number} ({trial.purpose}{place}{' ' + trial.label if trial.pair is not None else ''})"
