"""Hardware counters of a container's cgroup, counted by perf(1) while something else goes on."""

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
    """``program``: perf, or the name of another one."""

    def __init__(self, program: str = "perf", proc: Path = Path("/proc")) -> None:
        self._program = program
        self._proc = proc

    def missing(self) -> str:
        """Why there are no counters here, with the remedy where there is one; empty where there are."""
        return _missing(self._program)

    @contextmanager
    def counted(self, pid: int) -> Iterator[Callable[[], Mapping[str, float]]]:
        """Counts the cgroup of a process inside the block; what is yielded tells afterwards: ipc, mpki.LEVEL,
        topdown.PART; nothing where there are no counters, or the process is not on this machine.
        """
        cgroup = cgroup_of(self._proc, pid)
        if cgroup is None or self.missing():
            yield dict
            return
        found: dict[str, float] = {}
        with tempfile.TemporaryDirectory(prefix="tailor-perf-") as directory:
            output = Path(directory) / "counts"
            options = ["stat", "-a", "-x", SEPARATOR, "-o", str(output), "--for-each-cgroup", cgroup]
            running = subprocess.Popen(
                [self._program, *options, "-e", ",".join(_events(self._program))],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                yield lambda: found
            finally:
                _ended(running)
            if output.exists():
                with suppress(InputError):  # of a version that writes something else: then there are no counters
                    found.update(as_numbers(derived(read_perf(output.read_text()).get(cgroup, {}))))


def _ended(running: subprocess.Popen[bytes]) -> None:
    """It writes its counts when it is interrupted."""
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
    code, said = _tried(program, "cycles")
    if code:
        return f"{program} may not count here: {said.strip().splitlines()[0] if said.strip() else f'exit code {code}'}"
    try:
        counts = next(iter(read_perf(said).values()), {})
    except InputError as error:
        return f"{program} writes something else than expected: {error}"
    why = [one.why for one in counts.values() if one.value is None]
    return f"cycles are {why[0]} by this processor, as on most virtual machines" if why else ""


@cache
def _events(program: str) -> Sequence[str]:
    """Those that this processor knows: names of other makers' events are errors to perf."""
    return [event for event in (*EVENTS, TOPDOWN_GROUP) if not _tried(program, event)[0]]


def _tried(program: str, event: str) -> tuple[int, str]:
    """The exit code and the text of counting an event of the whole machine for a moment."""
    command = [program, "stat", "-a", "-x", SEPARATOR, "-e", event, "--", "sleep", "0.05"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stderr


def cgroup_of(proc: Path, pid: int) -> str | None:
    """The path of a process's cgroup as perf wants it (cgroup v1: of its perf_event hierarchy); None where it is gone
    or at the root, which would be the whole machine.
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
