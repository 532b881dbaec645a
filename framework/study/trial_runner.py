"""Trials of a running study: each is measured, completed with what the other trials say of it, and kept in memory."""

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
    """``recorded``: the study's trials, with each that is measured here."""

    def __init__(self, bench: Bench, study: str, plan: StudyPlan) -> None:
        self._bench, self._study = bench, study
        self.recorded = RecordedTrials(bench.store, study)
        self.follow(plan)

    def follow(self, plan: StudyPlan) -> None:
        """Measure as this plan says from now on."""
        self._controller = Controller(self._bench, self._study, plan, complete=self._complete)

    def run(self, spec: TrialSpec) -> Trial:
        """The finished trial, whatever became of it; while the testbed is away, it is tried again after a while.

        Raises Transient where the testbed stays away.
        """
        for wait_s in BACK_OFF_S:
            try:
                return self.recorded.add(self._controller.run(spec))
            except Transient as error:
                self._bench.watch(WaitStarted(str(error), wait_s))
                self._bench.clock.sleep(wait_s)
        return self.recorded.add(self._controller.run(spec))

    def _complete(self, trial: Trial) -> Trial:
        """The trial with what the optimizer will be told of it: at the machine's speed in the first trial."""
        valued = self.recorded.valued()
        found = sensitivity([*valued, trial], self._bench.application.objective)
        reference = typical([*valued, trial])
        this, others = at_speed(trial, found, reference), [at_speed(other, found, reference) for other in valued]
        baselines = [other for other in others if other.purpose in ("default", "drift")]
        told = drift_corrected(this, baselines) if trial.purpose == "search" else this.value
        return replace(trial, told_value=told, standard_error=standard_error(this, others))
