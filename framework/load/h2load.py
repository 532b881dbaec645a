"""h2load of nghttp2: connections that each send their share of the rate, nghttp2.org/documentation/h2load.1.html.

Over HTTP/1.1 a connection has one request at a time, so that a late reply delays the next request: a partly closed
loop.  Its log has a line for each request: start [us since the epoch], status (-1: failed), time to the end of the
reply [us].
"""

from __future__ import annotations

from framework.errors import LoadFailed
from framework.load.external import registered
from framework.load.invocation import TAIL_S, Finished, Invocation, Reported, Task, number, whole_seconds
from framework.load.request_rows import RequestRows
from framework.model import EXTERNAL_GENERATORS

LOG = "h2load.tsv"
FIELDS = 3  # of a line; later versions may add some


@registered
class H2load:
    """Runs h2load with ``--log-file``."""

    name = "h2load"

    def invocation(self, task: Task) -> Invocation:
        """Return the command; the script is a file of URIs, one a line."""
        seconds = whole_seconds(task.seconds + TAIL_S)  # it drops the requests that are open at its end
        where = (f"--input-file={task.script}",) if task.script else (f"{task.target}{task.load.path}",)
        return Invocation(
            (
                *(task.load.command or EXTERNAL_GENERATORS[self.name].command),
                f"--clients={task.load.users}", f"--rps={number(task.plan.rate_rps / task.load.users)}",
                f"--duration={seconds}", f"--log-file={task.results}/{LOG}", *where,
            ),
            seconds,
            outputs=(LOG,),
        )  # fmt: skip

    def read(self, task: Task, finished: Finished) -> Reported:
        """Read the log."""
        rows = RequestRows()
        path = finished.results / LOG
        try:
            with path.open("rb") as file:
                for at, line in enumerate(file, 1):
                    fields = line.split(b"\t")
                    if len(fields) < FIELDS:
                        raise LoadFailed(f"{LOG}, line {at}: {len(fields)} fields; at least {FIELDS} are expected")
                    start_us, status, took_us = (int(field) for field in fields[:FIELDS])
                    answered = status > 0
                    rows.add(
                        start_us * 1000, (start_us + took_us) * 1000 if answered else 0, status,
                        ok=200 <= status < 400, reason="" if answered else "no reply",
                    )  # fmt: skip
        except (OSError, ValueError) as error:
            raise LoadFailed(f"the log of h2load cannot be read: {error}") from error
        return Reported(rows, "sent")
