"""Three levels of the top-down analysis of a container's processes, by toplev (pmu-tools) where that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from framework.errors import InputError
from framework.testbeds.host.counters import TOPLEV_LEVELS, read_toplev

ENDS_IN_S = 20.0
POLL_S = 0.05


class Toplev:
    """``program``: toplev, or the name of another one."""

    def __init__(self, program: str = "toplev") -> None:
        self._program = program

    def installed(self) -> bool:
        return shutil.which(self._program) is not None

    @contextmanager
    def counted(self, processes: list[int]) -> Iterator[Callable[[], Mapping[str, float]]]:
        """Counts these processes, and those that they start, inside the block; what is yielded tells afterwards the
        share of each node, and nothing where toplev could not count (its reason is on standard error).
        """
        found: dict[str, float] = {}
        with tempfile.TemporaryDirectory(prefix="tailor-toplev-") as directory:
            output, until = Path(directory) / "nodes", Path(directory) / "until"
            os.mkfifo(until)
            # It counts while a command runs: one that ends when the other end of its pipe is closed.  Only per thread
            # does it add up processes; on processors before Ice Lake with SMT the slots are those of half a core then.
            options = ["-l", str(TOPLEV_LEVELS), "--verbose", "--no-desc", "--quiet", "--single-thread", "-x", ","]
            pids = ",".join(map(str, processes))
            running = subprocess.Popen(
                [self._program, *options, "-o", str(output), "--pid", pids, "cat", str(until)],
                stdout=subprocess.DEVNULL,
            )
            try:
                yield lambda: found
            finally:
                _ended(running, until)
            if running.returncode == 0 and output.exists():
                with suppress(InputError):  # of a version that writes something else: then there are no shares
                    found.update(read_toplev(output.read_text()))


def _ended(running: subprocess.Popen[bytes], until: Path) -> None:
    """Lets its command end, and it with it; waits for the command where that has not begun yet."""
    deadline = time.monotonic() + ENDS_IN_S
    while running.poll() is None and time.monotonic() < deadline:
        with suppress(OSError):  # nobody reads yet
            os.close(os.open(until, os.O_WRONLY | os.O_NONBLOCK))
            break
        time.sleep(POLL_S)
    try:
        running.wait(ENDS_IN_S)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
