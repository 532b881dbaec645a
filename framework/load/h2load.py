"""h2load of nghttp2: connections that each send their share of the rate, nghttp2.org/documentation/h2load.1.html.

Over HTTP/1.1 a connection has one request at a time, so that a late reply delays the next request: a partly closed
loop.  Its log has a line for each request: start [us since the epoch], status (-1: failed), time to the end of the
reply [us].
"""

from __future__ import annotations

from framework.load.external import registered
from framework.load.invocation import TAIL_S, Finished, Invocation, Reported, Task, number, whole_seconds
from framework.load.timed_lines import read_timed_lines
from framework.model import EXTERNAL_GENERATORS

LOG = "h2load.tsv"


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
        return Reported(read_timed_lines(finished.results / LOG, self.name), "sent")
