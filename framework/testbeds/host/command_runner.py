"""Runner of best-effort jobs that are commands of this machine, each in a control group of its own below BE's."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from framework.errors import DeploymentFailed, KnobRefused
from framework.model.batch_job import BatchJob, JobSeen
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host import command_supervisor
from framework.testbeds.host.cgroups import Cgroups, Group
from framework.testbeds.host.command_attempts import AttemptDirectory
from framework.testbeds.host.guarded_groups import BE
from framework.testbeds.host.thawing_runner import killed

ATTEMPTS = "guard/attempts"
"""Directory of the attempts below TAILOR_HOME."""
SUFFIX = ".job"  # of a group's name: no name of an attempt's group is a part of another one's
MOST_LINES = 10_000  # of a job's output that are kept
BEGINS_IN_S = 10.0
ENDS_IN_S = 5.0  # SIGKILL takes no longer, but for a process that waits for a disk that does not answer
PAUSE_S = 0.01
GONE = 255  # exit status of an attempt whose end nobody saw
UNSEEN = "the process that watched it was killed"


class CommandRunner:
    """Implements ``framework.ports.job_runner.JobRunner``.  ``home``: TAILOR_HOME.  ``be``: name of BE's group.

    ``launch``: starts the supervisor of a directory with a descriptor of its lock; raises DeploymentFailed.
    ``kill``: sends SIGKILL to a process.
    """

    def __init__(
        self, files: KernelFiles, home: Path, be: str = BE,
        launch: Callable[[Path, int], None] | None = None, kill: Callable[[int], None] = killed,
    ) -> None:  # fmt: skip
        self._files, self._root = files, home / ATTEMPTS
        self._cgroups = Cgroups(files)
        self._be = self._cgroups.top(be)
        self._launch, self._kill = launch or launched, kill
        self._processes: dict[str, tuple[str, int]] = {}

    def start(self, job: BatchJob) -> None:
        """Start an attempt; one that has begun already is left as it is.  Raises DeploymentFailed."""
        user = account_of(job.spec.user)
        directory = self._directory(job.container)
        try:
            directory.make()
            lock = directory.lock()
            if lock is None:
                return
            try:
                if not directory.begun():
                    self._begin(job, user, directory, lock)
            finally:
                os.close(lock)
        except (OSError, KnobRefused) as error:
            raise DeploymentFailed(f"it could not be started: {error}") from error

    def look(self) -> Sequence[JobSeen]:
        """Return all attempts.  Raises DeploymentFailed.

        Those of another run of the kernel are gone, with all that they did not write to a disk.  A group without a
        directory, of a guard with another TAILOR_HOME, is an attempt that nobody began here.  A group goes when its
        command has ended, as an engine does it, with the processes that the command left.
        """
        self._processes, seen = {}, []
        try:
            for container in self._known():
                directory = self._directory(container)
                if directory.of_another_boot():
                    directory.remove()
                else:
                    seen.append(self._seen(container, directory))
        except (OSError, KnobRefused) as error:
            raise DeploymentFailed(f"attempts of commands cannot be read: {error}") from error
        return seen

    def processes(self) -> Mapping[str, tuple[str, int]]:
        """Return name of a group -> (kind of its job, its first process), as of the last look."""
        return self._processes

    def numbers(self) -> Mapping[str, str]:
        """Return name of an attempt -> that of its group."""
        return {container: container + SUFFIX for container in self._known()}

    def save_output(self, container: str, target: Path) -> None:
        """Write an attempt's last lines to a file, at once.  Raises DeploymentFailed."""
        try:
            lines = self._directory(container).output().splitlines(keepends=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            new = target.with_name(target.name + ".new")
            new.write_text("".join(lines[-MOST_LINES:]))
            new.replace(target)
        except OSError as error:
            raise DeploymentFailed(f"its output could not be kept: {error}") from error

    def remove(self, containers: Collection[str]) -> None:
        """Kill all processes of attempts, also those that a command left, and remove what is kept of them.

        BE's group must not stand still.  Raises DeploymentFailed where a process does not end.
        """
        left, until = list(containers), time.monotonic() + ENDS_IN_S
        while True:
            try:
                left = [container for container in left if not self._ended(container)]
            except (OSError, KnobRefused) as error:
                raise DeploymentFailed(f"what is left of {', '.join(left)} could not be removed: {error}") from error
            if not left:
                return
            if time.monotonic() > until:
                raise DeploymentFailed(f"{', '.join(left)}: SIGKILL did not end it within {ENDS_IN_S:g} s")
            time.sleep(PAUSE_S)

    # ------------------------------------------------------------------ beginning

    def _begin(self, job: BatchJob, user: Account, directory: AttemptDirectory, lock: int) -> None:
        spec, group = job.spec, self._group(job.container)
        events = self._make(group, spec.memory_mib)
        own = {"PATH": command_supervisor.SEARCHED, "HOME": user.home, "USER": user.name, "LOGNAME": user.name}
        # The freezer's group is joined last: one that stands still has joined all others.
        groups = sorted(dict.fromkeys(group.directories.values()), key=lambda path: path == group["freezer"])
        directory.describe(
            {
                "command": list(spec.command),
                "environment": own | dict(spec.environment),
                "directory": spec.directory,
                "user": user.name,
                "uid": user.uid,
                "gid": user.gid,
                "groups": groups,
                "memory_events": events,
                "kind": spec.kind or spec.name,
            }
        )
        self._launch(directory.path, lock)

    def _make(self, group: Group, memory_mib: int) -> str:
        """Make a group with BE's CPUs; returns the file that counts kills for its memory, empty without a limit.

        This is done here and not by the supervisor, so that BE's CPUs do not change meanwhile.
        """
        versions = self._cgroups.versions
        if memory_mib and "memory" not in versions:
            raise DeploymentFailed("memory_mib: this kernel limits the memory of no group; allowed: leave it out")
        for directory in dict.fromkeys(group.directories.values()):
            self._files.make(directory)
        if versions["cpuset"] == 1:
            for name in ("cpuset.mems", "cpuset.cpus"):
                self._files.write(f"{group['cpuset']}/{name}", self._files.read(f"{self._be['cpuset']}/{name}").strip())
        return self._limit(group, memory_mib * 2**20) if memory_mib else ""

    def _limit(self, group: Group, size: int) -> str:
        """Limit a group's memory, and swap with it [bytes]."""
        memory = group["memory"]
        if self._cgroups.versions["memory"] == 1:
            self._files.write(f"{memory}/memory.limit_in_bytes", str(size))
            if self._files.exists(f"{memory}/memory.memsw.limit_in_bytes"):
                self._files.write(f"{memory}/memory.memsw.limit_in_bytes", str(size))
            return f"{memory}/memory.oom_control"
        self._files.write(f"{self._be['memory']}/cgroup.subtree_control", "+memory")
        self._files.write(f"{memory}/memory.max", str(size))
        if self._files.exists(f"{memory}/memory.swap.max"):
            self._files.write(f"{memory}/memory.swap.max", "0")
        return f"{memory}/memory.events"

    # ------------------------------------------------------------------ looking and ending

    def _known(self) -> list[str]:
        """Return the names of all attempts that have a directory or a group."""
        kept = {path.name for path in self._root.iterdir()} if self._root.exists() else set()
        groups = self._files.entries(self._be["cpuset"])
        return sorted(kept | {name.removesuffix(SUFFIX) for name in groups if name.endswith(SUFFIX)})

    def _seen(self, container: str, directory: AttemptDirectory) -> JobSeen:
        """Look in the order in which things happen, so that nothing that happens meanwhile makes it look ended."""
        begun, pid, status, kind = directory.begun(), directory.process(), directory.status(), directory.kind()
        if status is not None or (begun and not pid):
            self._clear(self._group(container))
            said = (GONE, UNSEEN) if status is None else (status.status, status.reason)
            return JobSeen(container, kind, 0, *said)
        if pid:
            self._processes[container + SUFFIX] = kind, pid
        return JobSeen(container, kind, pid, None)

    def _ended(self, container: str) -> bool:
        """Return whether nothing is left of an attempt; where something is, kill or remove it."""
        directory, group = self._directory(container), self._group(container)
        if pids := self._pids(directory, group):
            self._kill_all(directory, group, pids)
            return False
        if directory.path.exists():
            lock = directory.lock()
            if lock is None:  # its supervisor is just beginning, or ending
                return False
            os.close(lock)
        self._clear(group)
        if any(self._files.exists(path) for path in group.directories.values()):
            return False  # a process that was killed is still there for a moment
        directory.remove()
        return True

    def _clear(self, group: Group) -> None:
        """Kill what is in a group, and remove it; where a process needs a moment to end, the next call does it."""
        for pid in self._cgroups.pids(group):
            self._kill(pid)
        for path in dict.fromkeys(group.directories.values()):
            with suppress(KnobRefused):
                self._files.remove(path)

    def _pids(self, directory: AttemptDirectory, group: Group) -> set[int]:
        supervisor = directory.process()  # it may have joined only some trees
        return {*self._cgroups.pids(group), *([supervisor] if supervisor else [])}

    def _kill_all(self, directory: AttemptDirectory, group: Group, pids: set[int]) -> None:
        """Kill all processes of a group, which stands still meanwhile: none can make another one."""
        with suppress(KnobRefused):  # it has no group any more, or not yet
            self._cgroups.set_frozen(group, True)
            pids = self._pids(directory, group)
        for pid in pids:
            self._kill(pid)
        with suppress(KnobRefused):
            self._cgroups.set_frozen(group, False)

    def _directory(self, container: str) -> AttemptDirectory:
        return AttemptDirectory(self._root / container, self._files)

    def _group(self, container: str) -> Group:
        return self._be.child(container + SUFFIX)


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine, with its own group."""

    name: str
    uid: int
    gid: int
    home: str


def account_of(name: str) -> Account:
    """Return the user of a job.  Raises DeploymentFailed where there is none, or it is root."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise DeploymentFailed(f"user: this machine has no user {name!r}") from None
    if entry.pw_uid == 0 or entry.pw_gid == 0:
        raise DeploymentFailed(
            f"user: {name} is root, or of root's group; allowed: an unprivileged user of this machine"
        )
    return Account(name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def supervisor(directory: Path, lock: int) -> list[str]:
    """Return the words that start a supervisor, which must have the descriptor.

    By its path and without site packages: it must not depend on where the guard was started, and be small.
    """
    return [sys.executable, "-I", "-S", command_supervisor.__file__, str(directory.absolute()), str(lock)]


def launched(directory: Path, lock: int) -> None:
    """Start a supervisor in a session of its own, and wait until it has begun.  Raises DeploymentFailed."""
    try:
        done = subprocess.run(
            supervisor(directory, lock), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, errors="replace", cwd="/", env={}, pass_fds=[lock], start_new_session=True,
            timeout=BEGINS_IN_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise DeploymentFailed(f"it did not begin within {BEGINS_IN_S:g} s") from None
    if done.returncode:
        raise DeploymentFailed(f"it could not be started: {done.stderr.strip()[-500:]}")
