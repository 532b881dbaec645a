"""wrk2: a constant rate over connections, latencies from when requests were due, https://github.com/giltene/wrk2.

It tells only the distribution: the HdrHistogram's percentile spectrum that ``--latency`` prints.  Its first ten seconds
(and 5 ms for each connection of a thread) are a calibration that the histogram leaves out (calibrate() in src/wrk.c);
they are the warm-up, whatever the plan's is.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from framework.errors import InputError, LoadFailed
from framework.load.external import registered
from framework.load.invocation import Finished, Invocation, Reported, Task, whole_seconds
from framework.load.request_rows import RequestRows
from framework.model import EXTERNAL_GENERATORS

CALIBRATION_S, STAGGER_S = 10.0, 0.005
SHORTFALL = 0.01
"""Requests that were due and not finished count as failed where they are more than this share of all."""
_LINE = re.compile(r"^\s*([\d.]+)\s+([\d.]+)\s+(\d+)(?:\s+(?:[\d.]+|inf))?\s*$")
_TOTAL = re.compile(r"Total count\s*=\s*(\d+)")
_DONE = re.compile(r"^\s*(\d+) requests in ", re.MULTILINE)
_STATUS = re.compile(r"Non-2xx or 3xx responses: (\d+)")
_SOCKET = re.compile(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)")


@registered
class Wrk2:
    """Runs wrk2 with ``--latency``; its program is called wrk."""

    name = "wrk2"

    def invocation(self, task: Task) -> Invocation:
        """Return the command; the script is a Lua file."""
        script = ("-s", task.script) if task.script else ()
        seconds, rate_rps = _duration_s(task), task.plan.rate_rps
        if rate_rps != round(rate_rps):
            raise InputError(f"wrk2: found {rate_rps:g} requests/s; allowed: whole requests/s, which its -R takes")
        return Invocation(
            (
                *(task.load.command or EXTERNAL_GENERATORS[self.name].command),
                f"-t{_threads(task)}", f"-c{task.load.users}", f"-d{seconds}s", f"-R{rate_rps:.0f}",
                "--latency", *script, f"{task.target}{task.load.path}",
            ),
            seconds,
        )  # fmt: skip

    def read(self, task: Task, finished: Finished) -> Reported:
        """Read the spectrum and the errors from its output."""
        spectrum = spectrum_of(finished.output.decode(errors="replace"))
        warmup_s = _warmup_s(task)
        window_s = _duration_s(task) - warmup_s
        began_ns = finished.ended_ns - round(window_s * 1e9)  # the calibration comes before the window
        rows = _rows(spectrum, task.plan.rate_rps * window_s, began_ns)
        return Reported(rows, "distribution", warmup_s, window_s)


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The printed result.  ``steps``: (latency [ms], requests up to it), rising.  ``failed``: replies with an error.

    ``lost``: socket errors.  ``answered``: replies of the whole run, calibration included.
    """

    steps: tuple[tuple[float, int], ...]
    answered: int
    failed: int
    lost: int


def spectrum_of(text: str) -> Spectrum:
    """Read the output of ``wrk --latency``.  Raises LoadFailed."""
    _, marked, rest = text.partition("Detailed Percentile spectrum:")
    if not marked:
        raise LoadFailed("wrk2 printed no percentile spectrum (is the program wrk2, and not wrk?)")
    steps: list[tuple[float, int]] = []
    for line in rest.partition("#[")[0].splitlines():
        matched = _LINE.match(line)
        if matched:
            steps.append((float(matched[1]), int(matched[3])))
    total, done = _TOTAL.search(rest), _DONE.search(rest)
    if total is None or done is None or not steps or steps[-1][1] != int(total[1]) or steps != sorted(steps):
        raise LoadFailed("the percentile spectrum of wrk2 is damaged: its counts do not rise to the total")
    socket, status = _SOCKET.search(rest), _STATUS.search(rest)
    lost = sum(int(count) for count in socket.groups()) if socket else 0
    return Spectrum(tuple(steps), int(done[1]), int(status[1]) if status else 0, lost)


def _rows(spectrum: Spectrum, wanted: float, at_ns: int) -> RequestRows:
    """Return a request at ``at_ns`` for each count of the spectrum, with the upper latency of its step.

    Which replies had an error is not told, and errors of the calibration count in.  Of the window's requests their
    share counts as failed: the fastest ones.  So quantiles are never too low.  Socket errors are
    requests that were lost.
    """
    rows, before = RequestRows(), 0
    total = spectrum.steps[-1][1]
    failed = math.ceil(spectrum.failed * total / spectrum.answered) if spectrum.answered else 0
    for latency_ms, count in spectrum.steps:
        for number in range(before, count):
            ok = number >= failed
            rows.add(
                at_ns, at_ns + round(latency_ms * 1e6), 200 if ok else 400, ok, reason="" if ok else "status above 399"
            )
        before = count
    for _ in range(spectrum.lost):
        rows.add(at_ns, 0, 0, ok=False, reason="socket error")
    missing = round(wanted) - total - spectrum.lost
    for _ in range(missing if missing > SHORTFALL * wanted else 0):
        rows.add(at_ns, 0, 0, ok=False, reason="not finished at the end", sent=False)
    return rows


def _threads(task: Task) -> int:
    return min(EXTERNAL_GENERATORS[Wrk2.name].cpus or 1, task.load.users)


def _warmup_s(task: Task) -> float:
    return CALIBRATION_S + STAGGER_S * (task.load.users // _threads(task))


def _duration_s(task: Task) -> int:
    return whole_seconds(_warmup_s(task) + task.plan.window_s)
