"""Keeper of a guard: waits beside it, and gives everything back where the guard is killed.

A guard cannot catch SIGKILL, and best-effort jobs must not go on without it.  The keeper's standard input is a pipe
from the guard: its end without a last word means that the guard is gone.  The keeper ends the jobs' processes, which
needs no engine, then removes what they left and undoes the journal; where an engine is away it tries again for a while.
Where the keeper is killed too, the next guard does it.
"""

from __future__ import annotations

import sys
from pathlib import Path

NONE = "none"  # LC's project: whose containers they are no longer matters, the journal has their files


def main(home: Path, be: str) -> None:
    """Wait for the guard's last word, and act on its absence.  ``be``: name of BE's group.

    Jobs that are commands end, and LC's CPU sets come back, also where no engine answers; containers stand still then.
    """
    if sys.stdin.buffer.read().endswith(b"done\n"):
        return
    # Imported only now: the keeper shall not cost memory while it waits.
    from framework.testbeds.docker.guarded_machine import alone, guarded_machine
    from framework.testbeds.host.guarded_machine import give_back

    lock = alone()
    if lock is None:  # the next guard is here already, and does it
        return
    with lock:
        problems = give_back(guarded_machine(NONE, home, be=be))
    for problem in problems:
        sys.stderr.write(f"tailor guard was killed; could not give back: {problem}\n")
    if not problems:
        sys.stderr.write("tailor guard was killed: its jobs were ended, and every knob was given back\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
