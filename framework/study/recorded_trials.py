"""The trials of a study that runs: read once, then kept in memory beside the store, which has them first.

A whole study with the latencies of every request takes long to read; it is asked for several times per trial.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.model import Trial, TrialState
from framework.ports.store import StudyStore

FINISHED = (TrialState.COMPLETED, TrialState.FAILED, TrialState.INFEASIBLE)


class RecordedTrials:
    """For whoever alone runs a study."""

    def __init__(self, store: StudyStore, study: str) -> None:
        self._trials = {trial.number: trial for trial in store.trials(study)}

    def add(self, trial: Trial) -> Trial:
        """Take a trial that the store has; returns it."""
        self._trials[trial.number] = trial
        return trial

    def all(self) -> Sequence[Trial]:
        """In the order of their numbers."""
        return [self._trials[number] for number in sorted(self._trials)]

    def finished(self, purpose: str) -> list[Trial]:
        """Finished trials of a purpose, oldest first; aborted ones do not count."""
        return [trial for trial in self.all() if trial.purpose == purpose and trial.state in FINISHED]

    def valued(self) -> list[Trial]:
        """Trials with a value, oldest first."""
        return [trial for trial in self.all() if trial.state is TrialState.COMPLETED and trial.value is not None]
