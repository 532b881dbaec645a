"""The client of apps/key-value: connections that each send a burst of requests, and the next when all are answered.

A burst is what counts as one request here, because millions of single ones in a second are more than anybody can keep:
its latency is that of its last reply, and it is good when every record was found or stored.  The log has a line for
each.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from framework.load.external import registered
from framework.load.invocation import TAIL_S, Finished, Invocation, Reported, Task, number
from framework.load.timed_lines import read_timed_lines
from framework.model import EXTERNAL_GENERATORS

LOG = "bursts.tsv"
PORT = 7070


@registered
class KeyValue:
    """Runs key-value-load with ``-log``."""

    name = "key-value"

    def invocation(self, task: Task) -> Invocation:
        """Return the command; depth, batch, keys and the mix are said in ``load.command``."""
        seconds = task.seconds + TAIL_S
        return Invocation(
            (
                *(task.load.command or EXTERNAL_GENERATORS[self.name].command),
                "-address", f"{urlsplit(task.target).hostname}:{PORT}", "-connections", str(task.load.users),
                "-warmup", "0s", "-window", f"{number(seconds)}s", "-seed", str(task.plan.seed),
                "-log", f"{task.results}/{LOG}",
            ),
            seconds,
            outputs=(LOG,),
        )  # fmt: skip

    def read(self, task: Task, finished: Finished) -> Reported:
        """Read the log."""
        return Reported(read_timed_lines(finished.results / LOG, "key-value-load"), "sent")
