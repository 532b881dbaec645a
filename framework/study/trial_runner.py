"""Trials of a running study: each is measured, corrected by the other trials, and kept in memory."""

from __future__ import annotations

from dataclasses import replace

from framework.bench import Bench
from framework.controller import Controller
from framework.errors import Transient
from framework.model import StudyPlan, Trial
from framework.model.events import WaitStarted
from framework.model.study import TrialSpec
from framework.objective import drift_corrected, standard_error
from framework.objective.speed import at_speed, sensitivity, typical
from framework.study.recorded_trials import RecordedTrials

BACK_OFF_S = (5.0, 20.0, 60.0)


class TrialRunner:
    """Measures trials of one study.  ``recorded``: all its trials, those measured here included."""

    def __init__(self, bench: Bench, study: str, plan: StudyPlan) -> None:
        self._bench, self._study = bench, study
        self.recorded = RecordedTrials(bench.store, study)
        self.follow(plan)

    def follow(self, plan: StudyPlan) -> None:
        """Measure by this plan from now on."""
        self._controller = Controller(self._bench, self._study, plan, complete=self._complete)

    def run(self, spec: TrialSpec) -> Trial:
        """Measure a trial and return it finished, with or without a value; retry while the testbed is unavailable.

        Raises Transient where the testbed stays unavailable.
        """
        for wait_s in BACK_OFF_S:
            try:
                return self.recorded.add(self._controller.run(spec))
            except Transient as error:
                self._bench.watch(WaitStarted(str(error), wait_s))
                self._bench.clock.sleep(wait_s)
        return self.recorded.add(self._controller.run(spec))

    def _complete(self, trial: Trial) -> Trial:
        """Add the value for the optimizer, at the first trial's machine speed and without drift, and its error."""
        valued = self.recorded.valued()
        slope = sensitivity([*valued, trial], self._bench.application.objective)
        reference = typical([*valued, trial])
        corrected, others = at_speed(trial, slope, reference), [at_speed(other, slope, reference) for other in valued]
        baselines = [other for other in others if other.purpose in ("default", "drift")]
        told = drift_corrected(corrected, baselines) if trial.purpose == "search" else corrected.value
        return replace(trial, told_value=told, standard_error=standard_error(corrected, others))
