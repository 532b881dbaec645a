"""vegeta: an open loop at a constant rate, https://github.com/tsenart/vegeta.

It sends hit number n (from 0) at (n + 1) intervals after its beginning, or as soon as it can where it is late
(ConstantPacer in lib/pacer.go), and reports the number and the time of each.  So the time at which each hit was due
follows: latencies count from there, as those of Tailor's own generator do.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from framework.errors import LoadFailed
from framework.load.external import registered
from framework.load.invocation import Finished, Invocation, Reported, Task, number, whole_rate
from framework.load.request_rows import RequestRows
from framework.model import EXTERNAL_GENERATORS

TARGETS, BINARY, TABLE = "tailor-targets.txt", "vegeta.bin", "vegeta.csv"
FIELDS = 9  # of a row; newer versions add method, URL and headers
NANOSECONDS = 10**9
_RELATIVE = re.compile(rb"^([A-Z]+)[ \t]+(/\S*)", re.MULTILINE)


@registered
class Vegeta:
    """Runs ``vegeta attack``, then ``vegeta encode``, whose CSV is read."""

    name = "vegeta"

    def invocation(self, task: Task) -> Invocation:
        """Return the command; targets that begin with a path get the application's address."""
        address = task.target.encode()
        targets = _RELATIVE.sub(lambda match: match[1] + b" " + address + match[2], task.text)
        if not task.script:
            targets = f"GET {task.target}{task.load.path}\n".encode()
        command = task.load.command or EXTERNAL_GENERATORS[self.name].command
        requests, seconds = whole_rate(task.plan.rate_rps)
        binary = f"{task.results}/{BINARY}"
        return Invocation(
            (
                *command, f"-targets={TARGETS}", f"-rate={requests}/{seconds}s", f"-duration={number(task.seconds)}s",
                f"-workers={task.load.users}", "-max-body=0", f"-output={binary}",
            ),
            task.seconds,
            files={TARGETS: targets},
            outputs=(BINARY,),
            then=(command[0], "encode", "-to=csv", f"-output={task.results}/{TABLE}", binary),
            converted=(TABLE,),
        )  # fmt: skip

    def read(self, task: Task, finished: Finished) -> Reported:
        """Read the rows that ``vegeta encode`` wrote."""
        requests, seconds = whole_rate(task.plan.rate_rps)
        hits = list(_hits(finished.results / TABLE))
        interval_ns = seconds * NANOSECONDS // requests
        # No hit is early, so the one that was least late tells when the attack began.
        began_ns = min((sent - (number + 1) * interval_ns for number, sent, *_ in hits), default=0)
        rows = RequestRows()
        for number_of_hit, sent_ns, latency_ns, status, error in hits:
            due_ns = began_ns + (number_of_hit + 1) * interval_ns
            ok = not error and 200 <= status < 400
            end_ns = sent_ns + latency_ns if status else 0
            rows.add(sent_ns, end_ns, status, ok, reason=error[:200], due_ns=due_ns)
        return Reported(rows, "due")


def _hits(path: Path) -> Iterator[tuple[int, int, int, int, str]]:
    """Yield (number, time sent [ns], latency [ns], status, error) of each hit.  Raises LoadFailed."""
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            for at, row in enumerate(csv.reader(file), 1):
                if len(row) < FIELDS:
                    raise LoadFailed(f"{path.name}, row {at}: {len(row)} fields; at least {FIELDS} are expected")
                yield int(row[8]), int(row[0]), int(row[2]), int(row[1]), row[5]
    except (OSError, ValueError, csv.Error) as error:
        raise LoadFailed(f"the results of vegeta cannot be read: {error}") from error
