"""A cache of the trials of a running study: read from the store once, then kept up to date in memory.

Reading a whole study, with the latency of every request, takes long, and the trials are needed several times per trial.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.model import Trial, TrialState
from framework.ports.store import StudyStore

FINISHED = (TrialState.COMPLETED, TrialState.FAILED, TrialState.INFEASIBLE)


class RecordedTrials:
    """The trials of one study, for the single process that runs it."""

    def __init__(self, store: StudyStore, study: str) -> None:
        self._trials = {trial.number: trial for trial in store.trials(study)}

    def add(self, trial: Trial) -> Trial:
        """Add, or replace, a trial that the store has already; return it."""
        self._trials[trial.number] = trial
        return trial

    def all(self) -> Sequence[Trial]:
        """Return all trials in the order of their numbers."""
        return [self._trials[number] for number in sorted(self._trials)]

    def finished(self, purpose: str) -> list[Trial]:
        """Return the finished trials of a purpose, oldest first, without aborted ones."""
        return [trial for trial in self.all() if trial.purpose == purpose and trial.state in FINISHED]

    def of_pairs(self, purpose: str) -> list[Trial]:
        """Return the finished trials of a purpose's pairs, each pair's from one testbed: the one that has it last.

        Where a testbed was lost in the middle of a pair, the pair was measured anew on another one.
        """
        finished = self.finished(purpose)
        place = {trial.pair: trial.testbed for trial in finished}
        return [trial for trial in finished if trial.testbed in ("", place[trial.pair])]

    def valued(self) -> list[Trial]:
        """Return the completed trials that have a value, oldest first."""
        return [trial for trial in self.all() if trial.state is TrialState.COMPLETED and trial.value is not None]
