"""Keeper of a guard: waits beside it, and gives everything back where the guard is killed.

A guard cannot catch SIGKILL, and best-effort jobs must not go on without it.  The keeper's standard input is a pipe
from the guard: its end without a last word means that the guard is gone.  The keeper first lets BE stand still, then
ends the jobs and undoes the journal.  Where the keeper is killed too, the next guard does it.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

NONE = "none"  # LC's project: whose containers they are no longer matters, the journal has their files


def main(home: Path, be: str) -> None:
    """Wait for the guard's last word, and act on its absence.  ``be``: name of BE's group.

    Jobs that are commands end, and LC's CPU sets come back, also where no engine answers; containers stand still then.
    """
    if sys.stdin.buffer.read().endswith(b"done\n"):
        return
    # Imported only now: the keeper shall not cost memory while it waits.
    from framework.errors import TailorError
    from framework.testbeds.docker.guarded_machine import alone, guarded_machine

    lock = alone()
    if lock is None:  # the next guard is here already, and does it
        return
    with lock:
        machine = guarded_machine(NONE, home, be=be)
        with suppress(TailorError):
            machine.stand_still()
        problems = machine.restore()
    for problem in problems:
        sys.stderr.write(f"tailor guard was killed; could not give back: {problem}\n")
    if not problems:
        sys.stderr.write("tailor guard was killed: its jobs were ended, and every knob was given back\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
