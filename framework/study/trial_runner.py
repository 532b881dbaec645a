"""Trials of a running study: each is measured, corrected by the other trials, and kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from framework.bench import Bench
from framework.controller import Controller, window_mean
from framework.errors import Transient
from framework.model import Measurement, Purpose, StudyPlan, Trial
from framework.model.events import WaitStarted
from framework.model.study import TrialSpec
from framework.objective import drift_corrected, on_reference, rates_of, standard_error
from framework.objective.rates import error_over, told_over, value_over
from framework.objective.speed import at_speed, sensitivity, typical
from framework.study.recorded_trials import RecordedTrials

BACK_OFF_S = (5.0, 20.0, 60.0)


class TrialRunner:
    """Measures trials of one study.  ``recorded``: all its trials, those measured here included."""

    def __init__(self, bench: Bench, study: str, plan: StudyPlan) -> None:
        self._bench, self._study = bench, study
        self._several = bool(plan.testbeds)
        self.recorded = RecordedTrials(bench.store, study)
        self.follow(plan)

    def follow(self, plan: StudyPlan) -> None:
        """Measure by this plan from now on."""
        self._rates = rates_of(plan)
        self._controller = Controller(self._bench, self._study, plan, value=self._value, complete=self._complete)

    def begin(self, spec: TrialSpec) -> Trial:
        """Record a trial as running, and return it; ``run`` then measures it."""
        return self._controller.begin(spec)

    def run(self, spec: TrialSpec, begun: Trial | None = None) -> Trial:
        """Measure a trial and return it finished, with or without a value; retry while the testbed is unavailable.

        ``begun``: the trial, where it was recorded as running before.
        Raises Transient where the testbed stays unavailable.
        """
        for wait_s in BACK_OFF_S:
            try:
                return self.recorded.add(self._controller.run(spec, begun))
            except Transient as error:
                begun = None
                self._bench.watch(WaitStarted(str(error), wait_s))
                self._bench.clock.sleep(wait_s)
        return self.recorded.add(self._controller.run(spec, begun))

    def _value(self, spec: TrialSpec, windows: Sequence[Measurement]) -> float:
        """Return the value of windows: at several rates relative to the study's default.  Raises TrialFailed."""
        if self._rates is None:
            return window_mean(windows)
        return value_over(self._rates, windows, self._default_windows(spec.purpose, windows, self.recorded.valued()))

    def _default_windows(
        self, purpose: Purpose, windows: Sequence[Measurement], trials: Sequence[Trial]
    ) -> Sequence[Measurement]:
        """Return the windows of the study's latest default; these ``windows`` where they are of a default itself."""
        if purpose == "default":
            return windows
        return [trial for trial in trials if trial.purpose == "default"][-1].measurements

    def _complete(self, trial: Trial) -> Trial:
        """Add the value for the optimizer, at the first trial's machine speed and without drift, and its error."""
        valued = self.recorded.valued()
        here = [*self._here(valued), trial]
        slope, reference = sensitivity(here, self._bench.application.objective), typical(here)
        corrected, others = at_speed(trial, slope, reference), [at_speed(other, slope, reference) for other in valued]
        baselines = [other for other in self._here(others) if other.purpose in ("default", "drift")]
        if self._rates is not None:
            default = self._default_windows(trial.purpose, corrected.measurements, others)
            return replace(
                trial,
                told_value=told_over(self._rates, corrected, baselines)
                if trial.purpose == "search"
                else value_over(self._rates, corrected.measurements, default),
                standard_error=error_over(self._rates, corrected, others, default),
            )
        is_candidate = trial.purpose == "search" or (self._several and trial.purpose == "confirm")
        told = drift_corrected(corrected, baselines) if is_candidate else corrected.value
        complete = replace(trial, told_value=told, standard_error=standard_error(corrected, others))
        return self._on_reference(complete, baselines) if is_candidate and self._several else complete

    def _here(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """Return the trials that ran on this testbed; where a study has only one, all of them did."""
        return [trial for trial in trials if trial.testbed == self._bench.name] if self._several else trials

    def _on_reference(self, trial: Trial, baselines: Sequence[Trial]) -> Trial:
        """Return a trial on the scale of the study's first default, which may have run on another testbed."""
        default = next(other for other in self.recorded.valued() if other.purpose == "default")
        first = min(baselines, key=lambda baseline: baseline.number)
        level = first.value if default.testbed == self._bench.name else default.told_value
        return trial if level is None else on_reference(trial, baselines, level)
