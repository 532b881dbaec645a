"""A canary: a small walk through memory, whose slowdown senses what no counter of a virtual machine tells.

It senses pressure on the last-level cache and on memory: each step goes to a line that the private caches do not have.
On one machine of two virtual CPUs a step took 22 ns alone, and 203 ns beside a process that copied memory.  It does not
sense a busy CPU: steps are counted in CPU time.  Nor does it tell whose pressure it is: the latency-critical service's
own is in it too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from framework.model.topology import Topology

DUTY = 0.01  # of one CPU
PERIOD_S = 0.25  # of bursts
STALE_S = 3.0  # a burst through a memory ten times as slow still comes within a second
CALIBRATION_S = 2.0  # before there is a reading
FORGOTTEN = 0.01  # a minute: the share by which the calibration is taken to have become slower
SIZE_BYTES = 24 * 2**20
PRIVATE_TIMES = 4  # so that at most a quarter of the steps stays in a private cache
LONGEST_LINE = 4096  # bytes kept of a line that does not end
CLOSING_S = 2.0


@dataclass(frozen=True, slots=True)
class Burst:
    """Nanoseconds of CPU time a step took, and seconds of CPU time of the walking process so far."""

    step_ns: float
    cpu_s: float


@dataclass(slots=True)
class Slowdown:
    """The time of a step in relation to the fastest one seen.

    The fastest is forgotten slowly, so that a calibration at an unusually quiet moment, or before a virtual machine was
    moved, does not count for ever: without a faster step it grows by ``FORGOTTEN`` a minute, never above the last step.
    """

    _first_s: float | None = field(default=None, init=False)
    _last_s: float = field(default=0.0, init=False)
    _quiet_ns: float = field(default=0.0, init=False)

    def add(self, now_s: float, step_ns: float) -> float | None:
        """Return the slowdown of a step, at least 1; None before ``CALIBRATION_S`` of steps were seen."""
        if self._first_s is None:
            self._first_s, self._quiet_ns = now_s, step_ns
        else:
            minutes = (now_s - self._last_s) / 60.0
            self._quiet_ns = min(step_ns, self._quiet_ns * (1.0 + FORGOTTEN) ** minutes)
        self._last_s = now_s
        return step_ns / self._quiet_ns if now_s - self._first_s >= CALIBRATION_S else None


def walk_bytes(topology: Topology | None) -> int:
    """Return the size of the walk: more than the last private cache, and where it can be no more than half of the
    shared one, so that neighbours who take the cache slow it down; ``SIZE_BYTES`` where the caches are not known.
    """
    caches = [cache for cache in (topology.caches if topology else ()) if cache.kind != "i" and cache.size_bytes]
    if topology is None or not caches:
        return SIZE_BYTES
    cores = topology.groups("core").values()
    private = [cache for cache in caches if any(set(cache.cpus) <= set(core) for core in cores)]
    shared = [cache.size_bytes for cache in caches if cache not in private]
    least = PRIVATE_TIMES * max((cache.size_bytes for cache in private), default=0)
    most = max(shared) // 2 if shared else SIZE_BYTES
    return max(least, min(SIZE_BYTES, most))


LEAST_NS, MOST_NS = 1e-3, 1e12
"""Of one step of the walk: anything else is no time that a walk can take."""


class Canary:
    """Walks in a child process of the lowest priority, at about 1 % of one CPU; implements ``framework.ports.sensor``.

    The child starts with the first read and is pinned to nothing; to start it takes about a second of CPU time once.
    ``size_bytes``: of the walk (``walk_bytes``).  ``command``: the child; None: ``chase.py`` with that size.
    """

    name = "canary"
    gives = ("canary",)

    def __init__(self, size_bytes: int = SIZE_BYTES, command: Sequence[str] | None = None) -> None:
        own = (sys.executable, "-m", "framework.testbeds.host.chase", str(size_bytes))
        self._command = tuple(command) if command is not None else own
        self._child: subprocess.Popen[bytes] | None = None
        self._problem = ""
        self._slowdown = Slowdown()
        self._part = b""
        self._last: tuple[float, float] | None = None
        self.cpu_s = 0.0
        """CPU time that the child has used, as it says."""

    def missing(self) -> str:
        """Say why the child does not run; empty before it is started."""
        if self._child is not None and self._child.poll() is not None:
            return f"the canary's process ended with status {self._child.returncode}"
        return self._problem

    def read(self, now_s: float) -> Mapping[str, float]:
        """Return the slowdown of the last burst; empty while calibrating, and ``STALE_S`` after the last one."""
        if self._child is None and not self._problem:
            self._start()
        if self._child is not None:
            for burst in self._bursts(self._child):
                self.cpu_s = burst.cpu_s
                slowdown = self._slowdown.add(now_s, burst.step_ns)
                self._last = None if slowdown is None else (now_s, slowdown)
        if self._last is None or now_s - self._last[0] > STALE_S:
            return {}
        return {"canary": self._last[1]}

    def close(self) -> None:
        """End the child: it ends when its input does, and is killed where it does not."""
        child, self._child, self._problem = self._child, None, "the canary is closed"
        if child is None or child.stdin is None or child.stdout is None:
            return
        child.stdin.close()
        try:
            child.wait(CLOSING_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()

    def _start(self) -> None:
        try:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C in a terminal is for the guard alone
            )
        except OSError as error:
            self._problem = f"the canary's process cannot be started: {error}"
            return
        if self._child.stdout is not None:
            os.set_blocking(self._child.stdout.fileno(), False)

    def _bursts(self, child: subprocess.Popen[bytes]) -> list[Burst]:
        """Return the bursts that the child has told of since the last call, without waiting."""
        try:
            told = os.read(child.stdout.fileno(), 2**16) if child.stdout is not None else b""
        except BlockingIOError:
            told = b""
        *lines, part = (self._part + told).split(b"\n")
        self._part = part[-LONGEST_LINE:]
        bursts = []
        for line in lines:
            try:
                step_ns, cpu_s = map(float, line.split())
            except ValueError:
                continue
            if LEAST_NS <= step_ns <= MOST_NS:
                bursts.append(Burst(step_ns, cpu_s))
        return bursts
