"""A worker: takes the next study of the queue, runs it to its end or until somebody stops it, and takes the next.

A worker that dies leaves a lease that runs out; whoever takes the study then goes on with what is recorded.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from framework.errors import Interrupted, TailorError, Transient
from framework.model import StudyState
from framework.model.events import (
    Event,
    OnTestbed,
    PhaseStarted,
    PhaseStepStarted,
    RepetitionFinished,
    TrialFinished,
    TrialStarted,
)
from framework.model.job import Job
from framework.ports.service import JobQueue
from framework.ports.store import StudyStore
from framework.study.lease import LEASE_S
from framework.study.runner import StudyRunner
from framework.use_cases.studies import Studies

LOG = logging.getLogger("tailor.worker")
IDLE_S = 1.0
AWAY_S = 5.0
CHORES_EVERY_S = 3_600.0
ASKED_EVERY_S = 1.0  # how often the queue is asked whether to stop: a trial takes many seconds
MOST_RETRIES = 6  # in a row, while an engine or a database does not answer: some three minutes
LONGEST_WAIT = 60  # times IDLE_S between two of them; each wait is four times the one before


class Worker:
    """Runs the studies of a queue, one after the other.

    ``engine``: the Docker Engine that this worker has for one study at a time; empty for none.  ``chores``: done once
    an hour while nothing waits.  ``able``: tells the studies of the queue that can run here; None for all.
    """

    def __init__(
        self,
        studies: Studies,
        store: StudyStore,
        runner: StudyRunner,
        queue: JobQueue,
        engine: str,
        chores: Callable[[], None] = lambda: None,
        able: Callable[[], Collection[str] | None] = lambda: None,
    ) -> None:
        self._studies, self._store, self._runner = studies, store, runner
        self._queue = queue
        self._name = runner.holder  # whoever takes a job holds its lease
        self._engine = engine
        self._chores, self._able = chores, able
        self._next_chores = 0.0
        self._leaving = threading.Event()
        self._tries: dict[str, tuple[int, int]] = {}  # study -> (repetitions it had, tries since)

    def leave(self) -> None:
        """Stop at the next step; what runs is paused and stays in the queue for another worker."""
        self._leaving.set()

    def run(self, *, until_empty: bool = False) -> None:
        """Work until ``leave`` is called, or the queue has nothing for this worker."""
        while not self._leaving.is_set():
            try:
                self._runner.release_dead()
                job = self._queue.take(self._name, self._engine, LEASE_S, self._able())
                if job is not None:
                    self._work(job)
                else:
                    self._tidy()
            except TailorError as error:  # a store that is away comes back
                LOG.warning("the store does not answer: %s", error)
                self._leaving.wait(AWAY_S)
                continue
            if job is not None:
                continue
            if until_empty:
                return
            self._leaving.wait(IDLE_S)

    def _tidy(self) -> None:
        if time.monotonic() >= self._next_chores:
            self._next_chores = time.monotonic() + CHORES_EVERY_S
            self._chores()

    def _work(self, job: Job) -> None:
        LOG.info("study begins", extra={"study": job.study, "worker": self._name})
        done = 0
        try:
            done = sum(not m.invalid for t in self._store.trials(job.study) for m in t.measurements)
            self._studies.run(job.study, _Stopping(self._queue, job.study, self._leaving, done))
            self._queue.done(job.study, self._name)
        except Interrupted as error:
            if isinstance(error.__cause__, KeyboardInterrupt):  # of this process, not of the study
                self.leave()
            self._queue.stopped(job.study, self._name)  # unless somebody asked for it again, or nobody stopped it
        except Transient as error:
            self._again(job, error, done)
        except TailorError as error:
            LOG.warning("study failed", extra={"study": job.study, "reason": str(error)})
            self._queue.done(job.study, self._name)
        except Exception as error:  # a bug ends its study, not the worker
            LOG.exception("study ended by a bug", extra={"study": job.study})
            self._store.set_state(job.study, StudyState.FAILED, f"a bug of Tailor: {type(error).__name__}")
            self._queue.done(job.study, self._name)
        LOG.info("study ends", extra={"study": job.study, "worker": self._name})

    def _again(self, job: Job, error: Transient, done: int) -> None:
        """Keep the job's turn, since what is away may come back; after MOST_RETRIES without progress, end the job."""
        before, tries = self._tries.get(job.study, (done, 0))
        tries = tries + 1 if done == before else 1
        self._tries[job.study] = done, tries
        LOG.warning("study paused", extra={"study": job.study, "reason": str(error), "tries": tries})
        if tries >= MOST_RETRIES:
            self._queue.done(job.study, self._name)
        else:
            self._leaving.wait(IDLE_S * min(4**tries, LONGEST_WAIT))


class _Stopping:
    """A watch that reports a study's progress to the queue, and stops the study when asked: at the next step, or after
    the trial.
    """

    def __init__(self, queue: JobQueue, study: str, leaving: threading.Event, repetitions: int) -> None:
        self._queue, self._study, self._leaving = queue, study, leaving
        self._asked = 0.0
        self._wanted = ""
        self._progress: dict[str, Any] = {"phase": "", "trial": 0, "purpose": "", "incumbent": None}
        self._progress["repetitions"] = repetitions

    def __call__(self, event: Event) -> None:
        if self._leaving.is_set():
            raise Interrupted("the worker leaves")
        if isinstance(event, OnTestbed):  # trials run at the same time: the progress is that of the latest event
            event = event.event
            if isinstance(event, TrialFinished):  # machines differ: only told values compare
                event = TrialFinished(replace(event.trial, value=event.trial.told_value))
        self._note(event)
        trial_finished = isinstance(event, TrialFinished)
        if time.monotonic() - self._asked > ASKED_EVERY_S or trial_finished:
            self._wanted, self._asked = self._queue.stop_wanted(self._study), time.monotonic()
            self._queue.set_progress(self._study, self._progress)
        if self._wanted == "now" or (self._wanted == "after trial" and trial_finished):
            raise Interrupted("somebody stopped it")

    def _note(self, event: Event) -> None:
        noted = self._progress
        match event:
            case PhaseStarted(phase=phase) | PhaseStepStarted(phase=phase):
                noted["phase"] = phase
            case TrialStarted(number, purpose):
                noted |= {"trial": number, "purpose": purpose}
            case RepetitionFinished(measurement=measurement) if not measurement.invalid:
                noted["repetitions"] += 1
            case TrialFinished(trial) if trial.value is not None and trial.purpose in ("default", "search"):
                before = noted["incumbent"]
                noted["incumbent"] = trial.value if before is None else min(trial.value, before)
