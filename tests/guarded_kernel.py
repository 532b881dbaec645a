"""Pretended machines with LC and two jobs of BE, for tests of actuators and sensors on control groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from framework.ports.actuator import Actuator
from framework.testbeds.host.cgroups import Cgroups
from framework.testbeds.host.guarded_groups import BE, GuardedGroups
from framework.testbeds.host.journal import Journal, JournalledFiles, boot_id, undo_of_files
from framework.testing.actuator import Refuse
from framework.testing.pretend_cgroups import PretendKernel
from tests.guarded_cache import GuardedCache

LC = {"web": ("/docker/web", 100), "store": ("/docker/store", 101)}
JOBS = {"job-1": ("stream", 201), "job-2": ("compute", 202)}


class GuardedKernel:
    """A kernel of version 1 or 2; jobs are ``JOBS``, and ``running`` says which of them run.

    ``make``: makes the actuator.  ``lacks``: controllers without which it cannot work.
    """

    def __init__(
        self, version: int, directory: Path, make: Callable[[GuardedGroups], Actuator], lacks: frozenset[str],
    ) -> None:  # fmt: skip
        self.kernel, self._make, self._lacks, self._version = PretendKernel(version), make, lacks, version
        for path, pid in LC.values():
            self.kernel.add(path, pid)
        self.running = dict(JOBS)
        self._journal = Journal(directory / "journal.jsonl", boot_id(self.kernel), undo_of_files(self.kernel))
        self.groups = self.groups_of(self.kernel)
        self.groups.make()
        for name, (_, pid) in JOBS.items():
            self.kernel.add(f"/{BE}/{name}", pid)

    def groups_of(self, kernel: PretendKernel) -> GuardedGroups:
        files = JournalledFiles(kernel, self._journal)
        lc = {name: pid for name, (_, pid) in LC.items()}
        return GuardedGroups(
            Cgroups(kernel), files, lambda: {name: pid for name, pid in lc.items() if pid in kernel.pids},
            lambda: dict(self.running), disks=True,
        )  # fmt: skip

    def job(self, name: str = "job-1") -> str:
        return f"/{BE}/{name}"

    # ------------------------------------------------------------------ ActuatorWorld

    def actuator(self) -> Actuator:
        return self._make(self.groups)

    def lacking(self) -> Actuator:
        return self._make(self.groups_of(PretendKernel(self._version, lacks=self._lacks)))

    def shown(self) -> object:
        """Return the kernel's settings; of BE's CPUs, which may be none of its own (v2), those that it has."""
        return [
            (path, *((self.kernel.effective(path), *rest) if path.startswith(f"/{BE}") else (cpus, *rest)))
            for path, (cpus, *rest) in self.kernel.shown().items()
        ]

    def watch(self, refuse: Refuse) -> None:
        self.kernel.refuse = refuse

    def end_job(self, name: str = "job-1") -> None:
        _, pid = self.running.pop(name)
        self.kernel.end(pid)

    def end(self) -> None:
        for name in list(self.running):
            self.end_job(name)
        assert self._journal.restore() == []


class CacheWorld:
    """A machine whose cache is divided; its jobs have no groups that could go."""

    def __init__(self, here: GuardedCache, lacking: Actuator) -> None:
        self.here, self._lacking = here, lacking

    def actuator(self) -> Actuator:
        return self.here.actuator()

    def lacking(self) -> Actuator:
        return self._lacking

    def shown(self) -> object:
        return self.here.files.tree()

    def watch(self, refuse: Refuse) -> None:
        self.here.files.refuse = refuse

    def end_job(self) -> None:
        self.here.be.clear()
        self.here.files.end(200)

    def end(self) -> None:
        assert self.here.journal().restore() == []
