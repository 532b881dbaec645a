"""Jobs that are commands, on the pretended kernel: the runner is the guard's own, its supervisors are pretended."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from framework.testbeds.host.command_runner import SUFFIX, CommandRunner
from framework.testbeds.host.command_supervisor import ATTEMPT, PROCESS, STATUS, write
from framework.testbeds.host.guarded_groups import BE
from framework.testing.pretend_cgroups import PretendKernel

FIRST_PID = 500_000


@dataclass(slots=True)
class PretendCommand:
    """A supervisor with its command.  ``lock``: its descriptor of the attempt's lock."""

    directory: Path
    kind: str
    pid: int
    lock: int


@dataclass(slots=True)
class PretendCommands:
    """Outlives the guards that use it, as processes do.

    ``needs_s``: CPU seconds after which a command ends; ``status``: kind of a job -> its exit status, else 0.
    ``began``: name of every attempt that was ever started.
    """

    kernel: PretendKernel
    needs_s: float = 20.0
    status: Mapping[str, int] = field(default_factory=dict)
    began: list[str] = field(default_factory=list)
    here: dict[str, PretendCommand] = field(default_factory=dict)
    _signalled: set[int] = field(default_factory=set)

    def runner(self, home: Path) -> CommandRunner:
        """Return the runner of a guard with this TAILOR_HOME."""
        return CommandRunner(self.kernel, home, launch=self.launch, kill=self.kill)

    def launch(self, directory: Path, lock: int) -> None:
        """Start a supervisor; the guard may be killed before, and after."""
        self.kernel.refuse("launch", str(directory))
        number = directory.name.rsplit("-", 1)[0]
        if any(name.rsplit("-", 1)[0] == number for name in self.here):
            raise AssertionError(f"{directory.name} runs beside another attempt of its job")
        pid = FIRST_PID + len(self.began)
        self.kernel.join(f"/{BE}/{directory.name}{SUFFIX}", pid)
        write(directory / PROCESS, {"pid": pid, "started": str(self.kernel.born[pid])})
        kind = json.loads((directory / ATTEMPT).read_text())["kind"]
        self.here[directory.name] = PretendCommand(directory, kind, pid, os.dup(lock))
        self.began.append(directory.name)
        self.kernel.refuse("launched", str(directory))

    def kill(self, pid: int) -> None:
        """End a process at once, which no kernel does while BE stands still."""
        assert not self.kernel.groups[f"/{BE}"].frozen, "a frozen process cannot be ended"
        for name, command in self.here.items():
            if command.pid == pid:
                self._end(name)
                return

    def signal(self, pid: int) -> None:
        """Send SIGKILL to a process of a command, which ends it once it does not stand still."""
        self._signalled.add(pid)
        self._reap()

    def _reap(self) -> None:
        for name, command in list(self.here.items()):
            thawed = self.kernel.version == 2 or not self.kernel.stands_still(self.kernel.pids[command.pid])
            if command.pid in self._signalled and thawed:
                self._end(name)

    def running(self) -> list[tuple[str, str]]:
        """Return (kind, path of its group) of those whose processes are not frozen."""
        self._reap()
        here = [(command.kind, self.kernel.pids[command.pid]) for command in self.here.values()]
        return [(kind, path) for kind, path in here if not self.kernel.stands_still(path)]

    def work(self, path: str, seconds: float) -> None:
        """Let a command use CPU time; one that has had enough ends."""
        self.kernel.run(path, seconds)
        if self.kernel.groups[path].used_s >= self.needs_s:
            name = path.rpartition("/")[2].removesuffix(SUFFIX)
            command = self.here[name]
            write(command.directory / STATUS, {"status": self.status.get(command.kind, 0), "reason": ""})
            self._end(name)

    def _end(self, name: str) -> None:
        command = self.here.pop(name)
        self.kernel.leave(command.pid)
        os.close(command.lock)
