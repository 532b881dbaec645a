"""Locust: simulated users that wait for replies and think in between, a closed loop, https://docs.locust.io.

Its own CSV files have statistics of whole runs, warm-up included.  So a module of Tailor's is the locustfile: it has
the user's classes, and writes a line for each ``request`` event (start, response time, name, exception), as Locust's
documentation proposes for custom statistics.
"""

from __future__ import annotations

import csv
from pathlib import Path

from framework.errors import LoadFailed
from framework.load.external import registered
from framework.load.invocation import TAIL_S, Finished, Invocation, Reported, Task, whole_seconds
from framework.load.request_rows import RequestRows
from framework.model import EXTERNAL_GENERATORS

MODULE, REQUESTS, VARIABLE, SCRIPT = "tailor_locust.py", "locust.csv", "TAILOR_LOCUST_REQUESTS", "TAILOR_LOCUST_SCRIPT"
DRAIN_S = 10
FIELDS = 5
LISTENER = '''"""The user's locustfile, with a line written for each request."""

import csv
import importlib.util
import os
import sys
import time

from locust import events

sys.path.insert(0, os.path.dirname(os.environ["TAILOR_LOCUST_SCRIPT"]))
_spec = importlib.util.spec_from_file_location("tailor_user_locustfile", os.environ["TAILOR_LOCUST_SCRIPT"])
_module = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _module
_spec.loader.exec_module(_module)
globals().update({name: value for name, value in vars(_module).items() if not name.startswith("_")})

_file = open(os.environ["TAILOR_LOCUST_REQUESTS"], "w", newline="")
_rows = csv.writer(_file)


@events.request.add_listener
def _write(request_type, name, response_time, exception=None, response=None, start_time=None, **_):
    began = time.time() - response_time / 1000 if start_time is None else start_time
    status = getattr(response, "status_code", None) or 0
    error = "" if exception is None else type(exception).__name__
    _rows.writerow((repr(began), repr(float(response_time)), f"{request_type} {name}", status, error))


@events.quit.add_listener
def _close(**_):
    _file.flush()
'''


@registered
class Locust:
    """Runs ``locust --headless``."""

    name = "locust"

    def invocation(self, task: Task) -> Invocation:
        """Return the command, and the module that writes the requests."""
        seconds = whole_seconds(task.seconds + TAIL_S)
        users = task.load.users
        return Invocation(
            (
                *(task.load.command or EXTERNAL_GENERATORS[self.name].command),
                "--locustfile", MODULE, "--headless", "--host", task.target, "--users", str(users),
                "--spawn-rate", str(users), "--run-time", f"{seconds}s", "--stop-timeout", str(DRAIN_S),
                "--exit-code-on-error", "0", "--only-summary",
            ),
            seconds + DRAIN_S,
            {SCRIPT: task.script, VARIABLE: f"{task.results}/{REQUESTS}"},
            {MODULE: LISTENER.encode()},
            (REQUESTS,),
        )  # fmt: skip

    def read(self, task: Task, finished: Finished) -> Reported:
        """Read the requests."""
        return Reported(_requests(finished.results / REQUESTS), "sent")


def _requests(path: Path) -> RequestRows:
    rows = RequestRows()
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            for at, row in enumerate(csv.reader(file), 1):
                if len(row) != FIELDS:
                    raise LoadFailed(f"{path.name}, row {at}: {len(row)} fields; {FIELDS} are expected")
                start_ns = round(float(row[0]) * 1e9)
                end_ns = start_ns + round(float(row[1]) * 1e6)
                status, error = int(row[3]), row[4]
                # Protocols without a status have an exception or none; a failed request may have had a reply.
                rows.add(start_ns, end_ns if status or not error else 0, status or (0 if error else 200), not error,
                         row[2], error)  # fmt: skip
    except (OSError, ValueError, OverflowError, csv.Error) as error:
        raise LoadFailed(f"the requests of Locust cannot be read: {error}") from error
    return rows
