"""Entries of a guard's audit log: each is one line of JSON, and says enough to be understood alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from framework.model.energy import PowerCurve
from framework.model.guard import Decision, GuardedHost, Sample, Setting


@dataclass(frozen=True, slots=True)
class Began:
    """Start of a guard: ``policy`` with its options, the target's text, what the machine lacks, one sentence each.

    ``power``: of the machine by its utilisation, an estimate; None where nothing is known of it.
    """

    time_s: float
    at: str
    guarded: str
    policy: str
    options: Mapping[str, Any]
    host: GuardedHost
    quantile: float
    dry_run: bool
    missing: tuple[str, ...] = ()
    power: PowerCurve | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision on a sample."""

    time_s: float
    sample: Sample
    decision: Decision


@dataclass(frozen=True, slots=True)
class Acted:
    """A knob that was set, or would have been (``dry_run``), and the rule that asked for it."""

    time_s: float
    actuator: str
    knob: str
    old: str
    new: str
    rule: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class JobNoted:
    """A job that began, ended or waits again."""

    time_s: float
    number: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Anything else that an operator should know: a knob that was refused, an engine that does not answer."""

    time_s: float
    text: str


@dataclass(frozen=True, slots=True)
class EndedAt:
    """End of a guard: why, and what could not be given back."""

    time_s: float
    reason: str
    useful_s: float
    wasted_s: float
    left: tuple[str, ...] = ()


Entry = Began | Decided | Acted | JobNoted | Noted | EndedAt

_KINDS: Mapping[str, type[Any]] = {
    "began": Began,
    "decided": Decided,
    "acted": Acted,
    "job": JobNoted,
    "noted": Noted,
    "ended": EndedAt,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def entry_document(entry: Entry) -> dict[str, Any]:
    """Return an entry as plain data; readings that are missing are left out."""
    document = {"kind": _NAMES[type(entry)], **asdict(entry)}
    if isinstance(entry, Decided):
        document["sample"] = {name: value for name, value in document["sample"].items() if value is not None}
        setting = document["decision"]["setting"]
        document["decision"]["setting"] = {**setting, "paused": sorted(setting["paused"])}
    return document


def entry_of(document: Mapping[str, Any]) -> Entry:
    """Return the entry of a line.  Raises KeyError, TypeError for one that no version wrote."""
    values = dict(document)
    kind = _KINDS[values.pop("kind")]
    if kind is Began:
        values["host"] = GuardedHost(**values["host"])
        values["missing"] = tuple(values["missing"])
        power = values.get("power")
        values["power"] = None if power is None else PowerCurve(**power)
    if kind is Decided:
        sample = {**values["sample"], "jobs": tuple(values["sample"].get("jobs", ()))}
        values["sample"] = Sample(**{f.name: sample[f.name] for f in fields(Sample) if f.name in sample})
        decision = values["decision"]
        setting = {**decision["setting"], "paused": frozenset(decision["setting"]["paused"])}
        values["decision"] = Decision(Setting(**setting), decision["reasons"])
    if kind is EndedAt:
        values["left"] = tuple(values["left"])
    entry: Entry = kind(**values)
    return entry


@dataclass(slots=True)
class Summary:
    """Sums of a guard's decisions, each standing for the time until the next one.

    ``violation_s``: time with a tail latency above the target, or without one; ``blind_s``: the part without one.
    ``worst_ms``: highest latency.  ``busy_s``: core seconds of LC and BE; ``work_s``: those of BE.  ``last``: decision
    that was taken in last; before the first latency was measured, none counts.

    ``idle_j``, ``lc_j``, ``be_j``: joules that the machine takes when idle, and those above by CPU time, by its power
    curve; 0 without one, and without the time in which what they use was not read.
    """

    host: GuardedHost
    power: PowerCurve | None = None
    time_s: float = 0.0
    violation_s: float = 0.0
    blind_s: float = 0.0
    worst_ms: float = 0.0
    busy_s: float = 0.0
    work_s: float = 0.0
    idle_j: float = 0.0
    lc_j: float = 0.0
    be_j: float = 0.0
    last: Decided | None = None
    _seen: bool = False

    @property
    def violation(self) -> float:
        """Share of the time in which the target was missed."""
        return self.violation_s / self.time_s if self.time_s else 0.0

    @property
    def utilisation(self) -> float:
        return self.busy_s / (self.time_s * self.host.cores) if self.time_s else 0.0

    def take(self, decided: Decided) -> None:
        """Take in the next decision: the one before it lasted until now."""
        before, self.last = self.last, decided
        if before is not None:
            self._seen = self._seen or before.sample.latency_ms is not None
            if self._seen:
                self._add(before.sample, decided.time_s - before.time_s)

    def _add(self, sample: Sample, lasts_s: float) -> None:
        self.time_s += lasts_s
        self.work_s += lasts_s * (sample.be_cores or 0.0)
        self.busy_s += lasts_s * ((sample.lc_cores or 0.0) + (sample.be_cores or 0.0))
        if self.power is not None and sample.lc_cores is not None and sample.be_cores is not None:
            self._add_joules(self.power, sample.lc_cores, sample.be_cores, lasts_s)
        if sample.latency_ms is None:
            self.blind_s += lasts_s
            self.violation_s += lasts_s
            return
        self.worst_ms = max(self.worst_ms, sample.latency_ms)
        if sample.latency_ms > self.host.target_ms:
            self.violation_s += lasts_s

    def _add_joules(self, power: PowerCurve, lc_cores: float, be_cores: float, lasts_s: float) -> None:
        """Divide the joules of a stretch of time: idle apart, what is above by CPU time."""
        busy = lc_cores + be_cores
        self.idle_j += lasts_s * power.idle_w
        if busy > 0:
            active_j = lasts_s * (power.watts(busy / self.host.cores) - power.idle_w)
            self.lc_j += active_j * lc_cores / busy
            self.be_j += active_j * be_cores / busy
