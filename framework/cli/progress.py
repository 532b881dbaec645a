"""The progress of a study that runs: phase, trial, incumbent, time left.

On a terminal this is a progress bar; elsewhere one line per trial, so that a log stays readable.
"""

from __future__ import annotations

import math
from types import TracebackType
from typing import assert_never

from rich.console import Console
from rich.markup import escape
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
from framework.model.decisions import SearchEnd, SmallRecommendation
from framework.model.events import (
    BudgetFrozen,
    DatasetStepStarted,
    Event,
    GainExpected,
    NotesGiven,
    OnTestbed,
    PhaseStarted,
    PhaseStepStarted,
    PriorComputed,
    ProfileStepStarted,
    ProfileWindowStarted,
    RateMeasured,
    RepetitionFinished,
    SearchStopped,
    SmallerFound,
    SmallRecommended,
    SpaceReduced,
    TestbedLost,
    TrialFinished,
    TrialStarted,
    TwinAsked,
    WaitStarted,
    WarmupLengthened,
)
from framework.objective.checks import JOINED, not_joined
from framework.report.search_model import outlook_in_words
from framework.study.planning import expected_windows
from framework.use_cases.quiet import LOADED

SILENT = (RateMeasured, ProfileStepStarted, ProfileWindowStarted)  # `tailor sweep` and `tailor profile` show these


class StudyProgress:
    """A watch for ``Studies.run``; use as a context manager."""

    def __init__(self, console: Console, plan: StudyPlan) -> None:
        self._console = console
        self._plan = plan
        self._incumbent: float | None = None
        self._trial = ""
        self._side_by_side: dict[str, str] = {}  # testbed -> its trial
        self._bar = Progress(
            TextColumn("[bold]{task.fields[trial]}[/]"),
            TextColumn("{task.fields[phase]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("best {task.fields[best]}"),
            TextColumn("{task.fields[gain]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            transient=True,
        )
        self._loaded = self._unjoined = False
        self._task: TaskID = self._bar.add_task(
            "", total=expected_windows(plan), trial="starting", phase="", best="-", gain=""
        )

    def __enter__(self) -> StudyProgress:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        if isinstance(event, SILENT):
            return
        match event:
            case NotesGiven(notes):
                for note in notes:
                    self._console.print(note, markup=False, soft_wrap=True)
            case DatasetStepStarted(step):
                self._bar.update(self._task, trial="data", phase=step)
            case TwinAsked(done, total):
                self._bar.update(self._task, trial="the twin", phase=f"{done} of {total} configurations asked")
            case WarmupLengthened(warmup_s):
                self._console.print(f"warm-up: {warmup_s:g} s, because the default takes so long to settle")
            case BudgetFrozen(iterations):
                self._console.print(f"time limit: {iterations} configurations")
            case SearchStopped(end):
                self._search_stopped(end)
            case GainExpected(gain, noise):
                self._bar.update(self._task, gain=f"next +{100 * gain:.1f} % (noise {100 * noise:.1f} %)")
            case SpaceReduced(reduction):
                kept = f"{reduction.parameters} of {reduction.parameters_before} parameters"
                self._console.print(f"reduction {reduction.kind}: {kept} are tuned")
            case PriorComputed(points):
                best = math.exp(min((point.log_ratio for point in points), default=0.0))
                self._console.print(f"the twin was asked: its best has {best:.2f} times the default's p95, modelled")
            case SmallRecommended(recommendation):
                self._small_recommended(recommendation)
            case SmallerFound(configurations):
                self._smaller_found(len(configurations))
            case WaitStarted(reason, wait_s):
                self._console.print(f"[yellow]waiting {wait_s:.0f} s: {reason}")
            case OnTestbed(testbed, inner):
                self._on_testbed(testbed, inner)
            case TestbedLost(testbed, reason):
                self._side_by_side.pop(testbed, None)
                self._console.print(f"[yellow]testbed {escape(testbed)} is lost: {escape(reason)}", soft_wrap=True)
            case TrialStarted(number, purpose):
                self._trial = f"{purpose} {number}"
                self._bar.update(self._task, trial=self._trial, phase="")
            case PhaseStarted(phase):
                self._bar.update(self._task, phase=phase)
            case PhaseStepStarted(phase, step):
                self._bar.update(self._task, phase=f"{phase}: {step}")
            case RepetitionFinished(measurement=measurement):
                self._repetition_finished(measurement)
            case TrialFinished(trial):
                self._trial_finished(trial)
            case _:
                assert_never(event)

    # ------------------------------------------------------------------ inside

    def _on_testbed(self, testbed: str, event: Event) -> None:
        """Show an event of one of several trials that run at the same time: the bar names them all."""
        match event:
            case TrialStarted(number, purpose):
                self._side_by_side[testbed] = f"{purpose} {number}"
            case TrialFinished(trial):
                self._side_by_side.pop(testbed, None)
                self._trial_finished(trial)
            case RepetitionFinished(trial_number=number):
                self._trial = f"{testbed}: trial {number}"
                self(event)
            case WaitStarted(reason, wait_s):
                self._console.print(f"[yellow]{escape(testbed)} waits {wait_s:.0f} s: {escape(reason)}")
        running = ", ".join(self._side_by_side.values())
        self._bar.update(self._task, trial=running, phase=f"on {len(self._side_by_side)} testbeds")

    def _repetition_finished(self, measurement: Measurement) -> None:
        if measurement.invalid:
            reasons = "; ".join(measurement.invalid)
            at = "" if measurement.rate_rps is None else f" at {measurement.rate_rps:g} requests/s"
            self._console.print(
                f"[yellow]{self._trial}: repetition {measurement.repetition + 1}{at} does not count: {reasons}"
            )
        else:
            self._bar.advance(self._task)
        if measurement.joined is not None and measurement.joined < JOINED and not self._unjoined:
            self._unjoined = True  # said once: it is alike in every window
            self._console.print(f"[yellow]{not_joined(measurement.joined)}", soft_wrap=True)
        others = measurement.cpu.get("others", 0.0)
        if others > LOADED and not self._loaded:
            self._loaded = True  # said once: it is the reader who can do something about it
            self._console.print(
                f"[yellow]other processes took {others:.0%} of this machine's CPU time in the window: what is measured "
                "waits for them.  Ctrl-C stops the study; tailor resume goes on with it when the machine is quieter",
                soft_wrap=True,
            )

    def _trial_finished(self, trial: Trial) -> None:
        better = False
        value = trial.told_value if self._plan.testbeds else trial.value  # machines differ: only told ones compare
        if value is not None and trial.purpose in ("default", "search"):
            better = self._incumbent is None or value < self._incumbent
            self._incumbent = value if better else self._incumbent
        digits = 2 if self._plan.rates else 1  # a ratio to the default, or ms
        self._bar.update(self._task, best="-" if self._incumbent is None else f"{self._incumbent:.{digits}f}")
        mark = " [green]best so far[/]" if better and trial.purpose == "search" else ""
        if trial.state is TrialState.COMPLETED:
            error = f" +-{100 * trial.standard_error:.0f} %" if trial.standard_error else ""
            self._console.print(f"{self._name(trial)}: {trial.value:.2f}{error}{mark}")
        else:
            self._console.print(f"{self._name(trial)}: [red]{trial.state}[/] {trial.reason}")

    def _search_stopped(self, end: SearchEnd) -> None:
        left = (self._plan.iterations - end.trials) * self._plan.repetitions * len(self._plan.measured_rates)
        self._bar.update(self._task, total=max(0.0, (self._bar.tasks[self._task].total or 0.0) - left), gain="")
        reason = outlook_in_words(end, verdict=self._plan.pairs > 0)
        self._console.print(f"the search stops after {end.trials} configurations: {reason}", soft_wrap=True)

    def _smaller_found(self, count: int) -> None:
        total = (self._bar.tasks[self._task].total or 0.0) + self._plan.pairs * (1 + count) * bool(count) * len(
            self._plan.measured_rates
        )
        self._bar.update(self._task, total=total)
        self._console.print(f"smaller recommendations to try: {count or 'none'}")

    def _small_recommended(self, small: SmallRecommendation) -> None:
        risky = sum(change.risk != "none" for change in small.changes)
        total = (self._bar.tasks[self._task].total or 0.0) + self._plan.pairs * risky
        self._bar.update(self._task, total=total)
        self._console.print(
            f"changes that the model of the trials misses: {len(small.changes)}"
            + (f", {risky} of them risky: each has to show a gain of its own" if risky else "")
        )

    def _name(self, trial: Trial) -> str:
        place = f" pair {trial.pair + 1}" if trial.pair is not None else ""
        where = f" on {escape(trial.testbed)}" if self._plan.testbeds else ""
        label = f" {trial.label}" if trial.pair is not None else ""
        return f"trial {trial.number} ({trial.purpose}{place}{label}){where}"
