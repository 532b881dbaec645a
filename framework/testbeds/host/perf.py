"""Hardware counters of a container's cgroup, counted by perf(1) while a window is measured."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from framework.errors import InputError
from framework.testbeds.host.counters import EVENTS, SEPARATOR, SLOTS, TOPDOWN, as_numbers, derived, read_perf

TOPDOWN_GROUP = "{" + ",".join((SLOTS[0], *TOPDOWN.values())) + "}"  # counted together, the slots first
TRY_S = 20.0
ENDS_IN_S = 10.0


class Perf:
    """Counter of hardware events.  ``program``: perf, or the name of a replacement."""

    def __init__(self, program: str = "perf", proc: Path = Path("/proc")) -> None:
        self._program = program
        self._proc = proc

    def missing(self) -> str:
        """Say why there are no counters here, with the remedy if there is one; empty where there are counters."""
        return _missing(self._program)

    @contextmanager
    def counted(self, pid: int) -> Iterator[Callable[[], Mapping[str, float]]]:
        """Count events of a process's cgroup inside the block.

        The yielded callable returns the metrics after the block: ipc, mpki.LEVEL, topdown.PART; none where there are no
        counters, or where the process is not on this machine.
        """
        cgroup = cgroup_of(self._proc, pid)
        if cgroup is None or self.missing():
            yield dict
            return
        metrics: dict[str, float] = {}
        with tempfile.TemporaryDirectory(prefix="tailor-perf-") as directory:
            output = Path(directory) / "counts"
            options = ["stat", "-a", "-x", SEPARATOR, "-o", str(output), "--for-each-cgroup", cgroup]
            running = subprocess.Popen(
                [self._program, *options, "-e", ",".join(_events(self._program))],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                yield lambda: metrics
            finally:
                _stop(running)
            if output.exists():
                with suppress(InputError):  # a version with another output format: no counters then
                    metrics.update(as_numbers(derived(read_perf(output.read_text()).get(cgroup, {}))))


def _stop(running: subprocess.Popen[bytes]) -> None:
    """Interrupt perf, which then writes its counts."""
    running.send_signal(signal.SIGINT)
    try:
        running.wait(ENDS_IN_S)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()


@cache
def _missing(program: str) -> str:
    if shutil.which(program) is None:
        return f"{program} is not installed (Debian: apt-get install linux-perf)"
    code, output = _try_event(program, "cycles")
    if code:
        return f"{program} may not count here: {(output.strip() or f'exit code {code}').splitlines()[0]}"
    try:
        counts = next(iter(read_perf(output).values()), {})
    except InputError as error:
        return f"{program} writes something else than expected: {error}"
    why = [count.why for count in counts.values() if count.value is None]
    return f"cycles are {why[0]} by this processor, as on most virtual machines" if why else ""


@cache
def _events(program: str) -> Sequence[str]:
    """Return the events that this processor has: perf refuses the names of other makers' events."""
    return [event for event in (*EVENTS, TOPDOWN_GROUP) if not _try_event(program, event)[0]]


def _try_event(program: str, event: str) -> tuple[int, str]:
    """Count an event of the whole machine for a moment; returns (exit code, output)."""
    command = [program, "stat", "-a", "-x", SEPARATOR, "-e", event, "--", "sleep", "0.05"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stderr


def cgroup_of(proc: Path, pid: int) -> str | None:
    """Return the path of a process's cgroup as perf wants it (cgroup v1: in the perf_event hierarchy).

    None where the process is gone, or in the root cgroup, which would be the whole machine.
    """
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines() if pid > 0 else []
    except OSError:
        return None
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    for controllers, path in paths.items():
        if "perf_event" in controllers.split(","):
            return path.strip("/") or None
    return paths.get("", "").strip("/") or None
