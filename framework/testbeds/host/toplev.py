"""Top-down analysis of a container's processes, three levels deep, by toplev (pmu-tools) where it is installed."""

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
    """Counter of pipeline slots.  ``program``: toplev, or the name of a replacement."""

    def __init__(self, program: str = "toplev") -> None:
        self._program = program

    def installed(self) -> bool:
        return shutil.which(self._program) is not None

    @contextmanager
    def counted(self, processes: list[int]) -> Iterator[Callable[[], Mapping[str, float]]]:
        """Count these processes, and those that they start, inside the block.

        The yielded callable returns each node's share after the block; empty where toplev could not count (its reason
        is on standard error).
        """
        shares: dict[str, float] = {}
        with tempfile.TemporaryDirectory(prefix="tailor-toplev-") as directory:
            output, until = Path(directory) / "nodes", Path(directory) / "until"
            os.mkfifo(until)
            # toplev counts while a command runs: here `cat`, which ends when the other end of its pipe is closed.  It
            # adds up processes per thread only; on SMT processors before Ice Lake the slots are then half a core's.
            options = ["-l", str(TOPLEV_LEVELS), "--verbose", "--no-desc", "--quiet", "--single-thread", "-x", ","]
            pids = ",".join(map(str, processes))
            running = subprocess.Popen(
                [self._program, *options, "-o", str(output), "--pid", pids, "cat", str(until)],
                stdout=subprocess.DEVNULL,
            )
            try:
                yield lambda: shares
            finally:
                _stop(running, until)
            if running.returncode == 0 and output.exists():
                with suppress(InputError):  # a version with another output format: no shares then
                    shares.update(read_toplev(output.read_text()))


def _stop(running: subprocess.Popen[bytes], until: Path) -> None:
    """End toplev's command, and so toplev; first waits for the command to start reading its pipe."""
    deadline = time.monotonic() + ENDS_IN_S
    while running.poll() is None and time.monotonic() < deadline:
        with suppress(OSError):  # the command does not read yet
            os.close(os.open(until, os.O_WRONLY | os.O_NONBLOCK))
            break
        time.sleep(POLL_S)
    try:
        running.wait(ENDS_IN_S)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
