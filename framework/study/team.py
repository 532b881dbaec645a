"""The testbeds of one study: which are there, what each of them does next, and which one was lost.

All is decided in the study's own thread, between two results.  A testbed sees the trials that were finished when its
work began, so that what is recorded of a trial does not depend on which of its neighbours ends first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from framework.bench import Bench, Watch
from framework.errors import Interrupted, StoreBusy, Transient
from framework.model import StudyPlan, Trial
from framework.model.events import Event, OnTestbed, TestbedLost
from framework.model.study import TrialSpec
from framework.study.crew import Crew
from framework.study.recorded_trials import RecordedTrials
from framework.study.trial_runner import TrialRunner

Work = Sequence[TrialSpec]
"""Trials that one testbed runs, one after the other."""


class Tasks(Protocol):
    """Gives out work.  ``take``: the next work of a testbed, empty where there is none now; ``back``: takes what a lost
    testbed did not finish.
    """

    def take(self, testbed: str) -> Work: ...

    def back(self, testbed: str, work: Work) -> None: ...


@dataclass(slots=True)
class _Running:
    """Work that a testbed does, and what is finished of it."""

    work: Work
    finished: list[Trial] = field(default_factory=list)


class Team:
    """The testbeds that measure a study.  ``trials``: all of the study, to which finished ones are added."""

    def __init__(self, bench: Bench, study: str, plan: StudyPlan, trials: RecordedTrials, crew: Crew) -> None:
        self._store, self._watch, self._study, self._trials, self._crew = bench.store, bench.watch, study, trials, crew
        self._stopping = threading.Event()
        self._one_at_a_time = threading.Lock()  # of the study's watch
        self._runners = {
            member.name: TrialRunner(replace(member, watch=self._watched(member.name)), study, plan)
            for member in bench.team
        }
        self._running: dict[str, _Running] = {}

    @property
    def testbeds(self) -> tuple[str, ...]:
        """Those that are there, in the study's order."""
        return tuple(self._runners)

    def follow(self, plan: StudyPlan) -> None:
        """Measure by this plan from now on."""
        for runner in self._runners.values():
            runner.follow(plan)

    def lose(self, testbed: str, reason: str) -> None:
        """Go on without a testbed."""
        del self._runners[testbed]
        lost = TestbedLost(testbed, reason)
        self._store.add_event(self._study, lost)
        self._watch(lost)

    def work(self, tasks: Tasks) -> None:
        """Work until no testbed has work any more.

        A testbed that stays unavailable is lost, and its work goes back.  Raises its Transient where it was the last
        one, and what else is raised on a testbed; then all others stop at their next step, with their trials aborted.
        """
        try:
            while True:
                for testbed in self.testbeds:
                    if testbed not in self._running and (work := tasks.take(testbed)):
                        self._start(testbed, work)
                if not self._running:
                    return
                self._finish(tasks)
        except BaseException:
            self._stopping.set()
            self._crew.close()
            self._running.clear()
            self._stopping.clear()
            raise

    # ------------------------------------------------------------------ inside

    def _start(self, testbed: str, work: Work) -> None:
        """Begin work; its first trial is recorded at once, so that the records are in the order of the asks."""
        runner, running = self._runners[testbed], _Running(work)
        for trial in self._trials.all():
            runner.recorded.add(trial)
        begun = runner.begin(work[0])

        def do() -> None:
            running.finished.append(runner.run(work[0], begun))
            for spec in work[1:]:
                running.finished.append(runner.run(spec))

        self._running[testbed] = running
        self._crew.start(testbed, do)

    def _finish(self, tasks: Tasks) -> None:
        testbed, error = self._crew.wait()
        running = self._running.pop(testbed)
        for trial in running.finished:
            self._trials.add(trial)
        if isinstance(error, Transient) and not isinstance(error, StoreBusy):
            self.lose(testbed, str(error))
            if not self._runners:
                raise error
            tasks.back(testbed, running.work[len(running.finished) :])
        elif error is not None:
            raise error

    def _watched(self, testbed: str) -> Watch:
        """Return the watch of a testbed's trials: it says where they are, and ends them where the study stops."""

        def watched(event: Event) -> None:
            if self._stopping.is_set():
                raise Interrupted("the study stops")
            with self._one_at_a_time:
                self._watch(OnTestbed(testbed, event))

        return watched


class Assigned:
    """Tasks that are assigned to testbeds beforehand; those of a lost testbed are dropped."""

    def __init__(self, work: Mapping[str, Sequence[TrialSpec]]) -> None:
        self._work = {testbed: list(specs) for testbed, specs in work.items()}

    def take(self, testbed: str) -> Work:
        """Return the testbed's next trial."""
        left = self._work.get(testbed)
        return [left.pop(0)] if left else ()

    def back(self, testbed: str, work: Work) -> None:
        """Drop all work of the testbed."""
        self._work.pop(testbed, None)


class Groups:
    """Groups of trials, each of which runs on one testbed.

    ``left``: a group and a testbed -> its trials that have not run there.  A group that a testbed began goes on there;
    where that one is lost, it begins anew on another one.
    """

    def __init__(self, groups: Sequence[Work], began: Sequence[str | None], left: Callable[[Work, str], Work]) -> None:
        self._groups = list(zip(groups, began, strict=True))
        self._left = left
        self._given: dict[str, Work] = {}

    def known(self, testbeds: Sequence[str]) -> Groups:
        """Return the groups where those that other testbeds began are free for all."""
        self._groups = [(group, began if began in testbeds else None) for group, began in self._groups]
        return self

    def take(self, testbed: str) -> Work:
        """Return what is left of the next group that is this testbed's or nobody's; its own ones come first."""
        ordered = sorted(self._groups, key=lambda pair: pair[1] is None)
        for group, began in ordered:
            if began in (testbed, None):
                self._groups.remove((group, began))
                if left := self._left(group, testbed):
                    self._given[testbed] = group
                    return left
        return ()

    def back(self, testbed: str, work: Work) -> None:
        """Free the group, and those that the testbed began before, for others."""
        self._groups = [(group, None if began == testbed else began) for group, began in self._groups]
        self._groups.insert(0, (self._given.pop(testbed), None))
