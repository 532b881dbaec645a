"""k6: iterations that begin at a constant rate, https://grafana.com/docs/k6.

A module of Tailor's takes the place of the user's: it has all that the user's exports, with the executor
``constant-arrival-rate`` in the options, so that any script's default function is driven in an open loop.  Raw points
are read from ``--out json``: k6 stamps a request's points with the time at which it ended (SaveSamples in
lib/netext/httpext/tracer.go), http_req_duration leaves out the wait for a connection, and http_req_blocked is that
wait.  An iteration that no simulated user was free for is a point of dropped_iterations: it counts as failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from framework.errors import LoadFailed
from framework.load.external import registered
from framework.load.invocation import Finished, Invocation, Reported, Task, whole_rate
from framework.load.request_rows import RequestRows
from framework.model import EXTERNAL_GENERATORS

MODULE, POINTS = "tailor-k6.js", "k6.json"
WANTED = ("http_req_duration", "http_req_blocked", "dropped_iterations")
MARKS = tuple(f'"metric":"{name}"'.encode() for name in WANTED)
WRAPPER = """import * as theirs from './{script}';
export * from './{script}';
export default theirs.default;
if (typeof theirs.default !== 'function') {{
  throw new Error('{script} has no default function, which Tailor runs at its rate');
}}
const kept = Object.assign({{}}, theirs.options);
for (const key of ['vus', 'duration', 'iterations', 'stages', 'scenarios', 'thresholds', 'systemTags']) {{
  delete kept[key];
}}
kept.scenarios = {{ tailor: {{
  executor: 'constant-arrival-rate', rate: {requests}, timeUnit: '{per}s', duration: '{duration_ms}ms',
  preAllocatedVUs: {users}, maxVUs: {users},
}} }};
export const options = kept;
"""


@registered
class K6:
    """Runs ``k6 run --out json``."""

    name = "k6"

    def invocation(self, task: Task) -> Invocation:
        """Return the command, and the module that sets the rate."""
        requests, per = whole_rate(task.plan.rate_rps)
        module = WRAPPER.format(
            script=Path(task.script).name, requests=requests, per=per, duration_ms=round(task.seconds * 1000),
            users=task.load.users,
        )  # fmt: skip
        return Invocation(
            (
                *(task.load.command or EXTERNAL_GENERATORS[self.name].command),
                "--quiet", "--no-summary", "--no-usage-report", "--address=127.0.0.1:0",
                f"--out=json={task.results}/{POINTS}", MODULE,
            ),
            task.seconds,
            files={MODULE: module.encode()},
            outputs=(POINTS,),
        )  # fmt: skip

    def read(self, task: Task, finished: Finished) -> Reported:
        """Read the points."""
        rows = RequestRows()
        waiting: Mapping[str, Any] | None = None  # the duration whose wait for a connection comes next
        try:
            for metric, data in _points(finished.results / POINTS):
                if metric == "dropped_iterations":
                    for _ in range(round(data["value"])):
                        rows.add(_ns(data), 0, 0, ok=False, reason="not sent: no user was free", sent=False)
                elif metric == "http_req_duration":
                    if waiting is not None:
                        raise LoadFailed("the points of k6 cannot be read: a duration without http_req_blocked")
                    waiting = data
                elif waiting is not None:
                    _add(rows, waiting, float(data["value"]))
                    waiting = None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise LoadFailed(f"the points of k6 cannot be read: {type(error).__name__}: {error}") from error
        return Reported(rows, "sent")


def _add(rows: RequestRows, duration: Mapping[str, Any], blocked_ms: float) -> None:
    """Add a request, from its two points."""
    tags = duration["tags"]
    end_ns = _ns(duration)
    status = int(tags.get("status") or 0)
    ok = tags.get("expected_response") == "true" if "expected_response" in tags else 200 <= status < 400
    start_ns = end_ns - round((float(duration["value"]) + blocked_ms) * 1e6)
    reason = f"error {tags['error_code']}" if tags.get("error_code") and not status else ""
    name = str(tags.get("name") or tags.get("url") or "request")
    rows.add(start_ns, end_ns if status else 0, status, ok, name, reason)


def _points(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (metric, data) of the points that count, in the file's order."""
    with path.open("rb") as file:
        for line in file:
            if any(mark in line for mark in MARKS):
                point = json.loads(line)
                if point["type"] == "Point" and point["metric"] in WANTED:
                    yield point["metric"], point["data"]


def _ns(data: Mapping[str, Any]) -> int:
    """Return a point's time [ns]; RFC 3339 with up to nine decimals, of which datetime reads six."""
    head, dot, rest = str(data["time"]).partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))] if dot else ""
    zone = rest[len(digits) :] if dot else ""
    seconds = datetime.fromisoformat(f"{head}{zone}".replace("Z", "+00:00"))
    return int(seconds.timestamp()) * 10**9 + int(digits.ljust(9, "0")[:9] or 0)
