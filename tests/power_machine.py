"""A pretended machine with a directory tree of kernel files, for tests of power sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from framework.model.energy import CpuTimes
from framework.testbeds.host.kernel_files import HostKernelFiles
from framework.testbeds.host.power.commands import NOT_THERE, CommandOutput
from framework.testbeds.host.power.registry import Surroundings

CPUS = 4
BEGUN_S, EPOCH_S = 1000.0, 1_800_000_000.0


@dataclass
class PretendMachine:
    """Time passes in ``pass_time``.  ``root``: of the kernel's files.  ``busy``: share of the CPUs that is busy."""

    root: Path
    at_s: float = BEGUN_S
    busy: float = 0.5
    cpu: CpuTimes = field(default_factory=CpuTimes)
    answer: CommandOutput = field(default_factory=lambda: CommandOutput(NOT_THERE, "ipmitool is not installed"))
    commands: list[tuple[str, ...]] = field(default_factory=list)

    def write(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def show(self, path: str, text: str | None) -> None:
        """Write a file, or remove it."""
        if text is not None:
            self.write(path, text)
        else:
            (self.root / path.lstrip("/")).unlink(missing_ok=True)

    def pass_time(self, seconds: float) -> tuple[float, CpuTimes]:
        self.at_s += seconds
        used = CPUS * seconds * self.busy
        self.cpu = CpuTimes(user=self.cpu.user + used, idle=self.cpu.idle + CPUS * seconds - used)
        return self.at_s, self.cpu

    def now(self) -> float:
        """The wall clock."""
        return EPOCH_S + self.at_s

    def ran(self, command: object) -> CommandOutput:
        self.commands.append(tuple(command))  # type: ignore[arg-type]
        return self.answer

    def surroundings(self) -> Surroundings:
        return Surroundings(HostKernelFiles(self.root), run=self.ran, now=self.now)
