"""Data of a guard: one sample of its sensors, one setting of its actuators, and why it was chosen.

LC: the latency-critical service.  BE: best-effort batch jobs.  Slack and load are those of Heracles (Lo et al., ISCA
2015): (target - latency) / target, and the rate as a share of the peak rate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from framework.errors import FieldError

_TARGET = re.compile(r"p(\d{1,2}(?:\.\d+)?)\s*<=?\s*(\d+(?:\.\d+)?)\s*(us|ms|s)")
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def target_of(text: str) -> tuple[float, float]:
    """Return (quantile, milliseconds) of a target such as ``p95 <= 15ms``.  Raises FieldError."""
    match = _TARGET.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) < 100 or not float(match[2]) > 0:
        raise FieldError("target", text, "a quantile and a time, such as p95 <= 15ms")
    return float(match[1]) / 100, float(match[2]) * _UNITS[match[3]]


@dataclass(frozen=True, slots=True)
class GuardDefaults:
    """How an application is guarded where the command line says nothing else.

    ``target``: such as ``p95 <= 15ms``; empty: none.  ``peak_rps``: the highest rate that it is to serve; 0: not said.
    ``load_profile``: of a day, for a load of Tailor's own.
    """

    target: str = ""
    peak_rps: float = 0.0
    load_profile: Path | None = None


@dataclass(frozen=True, slots=True)
class GuardedHost:
    """The machine, and what is to be kept on it.

    ``cores``: to divide between LC and BE, at least 2.  ``ways``: cache ways to divide; 0: the machine cannot.
    ``bandwidth_gbs``: of the memory; 0: not measured.  ``link_mbps``: outgoing; 0: not shaped.  ``disk_mbs``: that a
    disk reads, or writes; 0: not divided.  ``target_ms``: of the tail latency.  ``peak_rps``: the rate that counts as a
    load of 1.
    """

    cores: int
    target_ms: float
    peak_rps: float
    ways: int = 0
    bandwidth_gbs: float = 0.0
    link_mbps: float = 0.0
    disk_mbs: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The sensors' last window, at a time of the policy's clock.  None: missing or stale.

    ``latency_ms``: tail latency of LC.  ``lc_cores``, ``be_cores``: CPU time that they took, in cores.
    ``bandwidth_gbs`` of the whole memory, ``lc_bandwidth_gbs`` and ``be_bandwidth_gbs`` of its users; ``lc_mbps``,
    ``be_mbps`` of the link.  ``lc_delay``, ``be_delay``: seconds a second that their threads waited for a CPU, summed
    over threads.  ``pressure``: share of the time in which some task waited for a CPU.  ``canary``: slowdown of a small
    walk through memory; 1 on the idle machine.  ``lc_disk_mbs``, ``be_disk_mbs``: megabytes a second that they read
    and write, on the disk that each uses most.  ``jobs``: kinds of the jobs that run or are frozen.
    """

    time_s: float
    latency_ms: float | None = None
    rate_rps: float | None = None
    lc_cores: float | None = None
    be_cores: float | None = None
    bandwidth_gbs: float | None = None
    lc_bandwidth_gbs: float | None = None
    be_bandwidth_gbs: float | None = None
    lc_mbps: float | None = None
    be_mbps: float | None = None
    lc_delay: float | None = None
    be_delay: float | None = None
    pressure: float | None = None
    canary: float | None = None
    lc_disk_mbs: float | None = None
    be_disk_mbs: float | None = None
    jobs: tuple[str, ...] = ()

    def cleaned(self) -> Sample:
        """Return the sample without readings that no sensor can have: negative ones, and those that are no number."""
        readings: dict[str, Any] = {}
        for name in READINGS:
            value = getattr(self, name)
            readings[name] = value if value is not None and math.isfinite(value) and value >= 0 else None
        return replace(self, **readings)

    def slack(self, host: GuardedHost) -> float:
        """Return the slack; minus infinity where the latency is missing, which counts as a violation."""
        if self.latency_ms is None:
            return -math.inf
        return (host.target_ms - self.latency_ms) / host.target_ms

    def load(self, host: GuardedHost) -> float:
        """Return the load; 1 where the rate is missing: nothing may be assumed to be free."""
        return 1.0 if self.rate_rps is None else self.rate_rps / host.peak_rps


READINGS = (
    "latency_ms", "rate_rps", "lc_cores", "be_cores", "bandwidth_gbs", "lc_bandwidth_gbs", "be_bandwidth_gbs",
    "lc_mbps", "be_mbps", "lc_delay", "be_delay", "pressure", "canary",
    "lc_disk_mbs", "be_disk_mbs",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """Resources that BE may use.  ``running`` false: its jobs are frozen, and LC has the whole machine.

    ``cores``: whole ones that LC does not use, or, where not ``exclusive``, CPU time on LC's cores.  ``ways`` of the
    cache.  ``mbps`` of the outgoing link.  ``paused``: kinds of jobs that stay frozen.  ``bandwidth``: share of the
    memory's that is not throttled away, above 0 to 1.  ``disk_mbs``: megabytes a second that may be read from each
    disk, and as many that may be written; None: not limited.
    """

    running: bool = False
    cores: float = 0.0
    ways: int = 0
    mbps: float = 0.0
    exclusive: bool = True
    paused: frozenset[str] = frozenset()
    bandwidth: float = 1.0
    disk_mbs: float | None = None


NOTHING = Setting()
"""BE stands still: how every guard begins, and ends."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A setting, and for each changed field of it the rule that chose it."""

    setting: Setting
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """A knob that was changed: its name in the kernel's words, and its values."""

    knob: str
    old: str
    new: str
