"""Jobs that this machine can do: a worker leaves a study alone whose application is not here, or is another one.

With several machines on one database, a study belongs to those machines that have its application with the same
content and, once it has measured on an engine, to those of the same hardware.  Others would fail it.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Collection
from dataclasses import dataclass, field

from cachetools import TTLCache

from framework.bench import Backends
from framework.config.application import FILE
from framework.errors import InputError, MissingPrerequisite, NotFound, TailorError
from framework.model import EXTERNAL, Study, StudyState
from framework.ports.service import JobQueue

LOG = logging.getLogger("tailor.worker")
AGAIN_S = 30.0  # an application that was copied here is noticed after so long
MOST = 10_000


@dataclass
class LocalJobs:
    """Tells which jobs of a queue this machine can do."""

    backends: Backends
    queue: JobQueue
    again_s: float = AGAIN_S
    _reasons: TTLCache[str, str] = field(init=False)
    _directories: TTLCache[tuple[str, ...], str] = field(init=False)
    _said: set[tuple[str, str]] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._reasons, self._directories = TTLCache(MOST, self.again_s), TTLCache(MOST, self.again_s)

    def able(self) -> Collection[str]:
        """Return the studies of the queue that can run here; note in the others, while they wait, why they cannot.

        Raises StoreError and its subclasses.
        """
        able = set()
        for job in self.queue.jobs():
            if job.study not in self._reasons:
                self._reasons[job.study] = self._examine(job.study, waits=not job.worker)
            if not self._reasons[job.study]:
                able.add(job.study)
        return able

    def _examine(self, study_id: str, *, waits: bool) -> str:
        try:
            reason = self.reason_against(self.backends.store.get(study_id))
        except NotFound:
            return "no study any more"
        if reason and (study_id, reason) not in self._said:
            self._said.add((study_id, reason))
            LOG.warning("study waits for another machine", extra={"study": study_id, "reason": reason})
        if reason and waits:
            self.queue.set_progress(study_id, {"phase": f"waits for a machine that can run it; not {reason}"})
        return reason

    def reason_against(self, study: Study) -> str:
        """Return why this machine cannot run a study, its name first; empty where it can, or fails it."""
        if study.testbed == EXTERNAL:
            return ""
        for name in study.plan.testbeds or (study.testbed,):
            try:
                self.backends.kind(name)
            except (InputError, MissingPrerequisite):
                return f"{platform.node()}, which has no testbed {name}"
        launched_here = study.machine.hostname == platform.node()
        key = (str(study.directory), study.application_hash, str(launched_here))
        if key not in self._directories:
            self._directories[key] = self._application(study, launched_here=launched_here)
        return self._directories[key] or self._hardware(study)

    def _application(self, study: Study, *, launched_here: bool) -> str:
        here = platform.node()
        if not (study.directory / FILE).is_file():
            return f"{here}, which has no {study.directory / FILE}"
        try:
            changed = self.backends.application(study.directory).content_hash != study.application_hash
        except TailorError:
            return ""  # the run says what is wrong
        # Where it was launched, the run ends with the message that the application changed.
        return f"{here}, whose {study.directory} is another one" if changed and not launched_here else ""

    def _hardware(self, study: Study) -> str:
        """Return a reason against going on with a study that measured on an engine of other hardware."""
        if study.state is StudyState.CREATED or not self.backends.kind(study.testbed).exclusive:
            return ""
        try:
            here = self.backends.machine_of(study.testbed, self.backends.application(study.directory))
        except TailorError:
            return ""
        there = study.machine
        if (here.cpu, here.cores) == (there.cpu, there.cores):
            return ""
        return f"{here.hostname} ({here.cores} x {here.cpu}): it was begun on {there.cores} x {there.cpu}"
