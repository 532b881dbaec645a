"""A guard's loop: read the sensors, let the policy decide, set the actuators, look after the jobs.

    sense -> Sample -> decide -> Setting -> act

A reading that is missing or stale is None in the sample, and a missing latency counts as a violation.  A setting is set
again now and then, so that a container that came meanwhile has it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.errors import DeploymentFailed, KnobRefused, Transient
from framework.guard.jobs import JobEvent, Jobs
from framework.guard.policy import Policy
from framework.model.guard import NOTHING, READINGS, Decision, GuardedHost, Sample, Setting
from framework.model.guard_record import Acted, Decided, Entry, JobNoted, Noted
from framework.ports.actuator import Actuator
from framework.ports.clock import Clock
from framework.ports.sensor import Sensor

TICK_S = 0.1  # sensors are read ten times a second
TEND_S = 1.0  # jobs are looked after once a second
AGAIN_S = 1.0  # a setting is compared with the machine again: a container that restarted has its own CPUs
MOST_REFUSALS = 3  # in a row, after which an actuator is left alone


@dataclass(slots=True)
class Guard:
    """``actuators``: in the order in which BE loses what they give; it gets it in the reverse order, so that it is
    thawed only when all else is set.  ``needed``: names of those without which nothing may run.  ``record``: takes
    each entry.
    """

    host: GuardedHost
    policy: Policy
    sensors: Sequence[Sensor]
    actuators: Sequence[Actuator]
    needed: frozenset[str]
    jobs: Jobs
    clock: Clock
    record: Callable[[Entry], None]
    dry_run: bool = False
    setting: Setting = field(default=NOTHING, init=False)
    sample: Sample = field(default=Sample(0.0), init=False)
    _state: Any = field(default=None, init=False)
    _began_s: float = field(default=0.0, init=False)
    _due_s: float = field(default=0.0, init=False)
    _tend_s: float = field(default=0.0, init=False)
    _again_s: float = field(default=0.0, init=False)
    _refusals: dict[str, int] = field(default_factory=dict, init=False)
    _silent: bool = field(default=False, init=False)

    def run(self, seconds: float | None, stopped: Callable[[], bool] = lambda: False) -> str:
        """Guard for so many seconds (None: until it is stopped); returns why it ended.

        Raises KnobRefused where a needed knob is refused: BE's jobs must not run then.
        """
        self.begin()
        next_s = self._began_s
        while not stopped():
            if seconds is not None and self.now_s >= seconds:
                return f"{seconds:g} s were over"
            self.step()
            next_s = max(next_s + TICK_S, self.clock.monotonic())
            self.clock.sleep(max(0.0, next_s - self.clock.monotonic()))
        return "stopped"

    @property
    def now_s(self) -> float:
        """Seconds since the guard began."""
        return self.clock.monotonic() - self._began_s

    def begin(self) -> None:
        """Start: BE stands still, jobs of an earlier guard are taken over.  Raises KnobRefused."""
        self._began_s = self.clock.monotonic()
        self._state = self.policy.start(self.host)
        self._act(Decision(NOTHING, {"running": "the guard begins"}))
        if not self.dry_run:
            self._noted(self.jobs.recover)

    def step(self) -> None:
        """Do what is due now.  Raises KnobRefused where a needed knob is refused."""
        now = self.now_s
        self.sample = self._read(now)
        if now >= self._due_s:
            self._due_s = max(self._due_s + self.policy.period_s, now)
            self._state, decision = self.policy.decide(self.host, self._state, self.sample)
            self._act(decision)
            self.record(Decided(now, self.sample, decision))
        if now >= self._tend_s and not self.dry_run:
            self._tend_s = now + TEND_S
            if self._noted(lambda: self.jobs.tend(self.setting.running, self.setting.paused)):
                self._again_s = now  # a job that began has no limits yet, and others may have what one had that ended
                self._act(Decision(self.setting, {"running": "a job began or ended"}))

    def _read(self, now: float) -> Sample:
        """Read all sensors; of several that give a field, the first one that has it counts."""
        readings: dict[str, float] = {}
        at = self.clock.monotonic()
        for sensor in self.sensors:
            for name, value in sensor.read(at).items():
                readings.setdefault(name, value)
        known: dict[str, Any] = {name: readings[name] for name in READINGS if name in readings}
        return Sample(now, **known, jobs=self.jobs.kinds()).cleaned()

    def _act(self, decision: Decision) -> None:
        now, wanted = self.now_s, decision.setting
        if wanted == self.setting and now < self._again_s:
            return
        self._again_s = now + AGAIN_S
        before, self.setting = self.setting, wanted
        order = self.actuators if not wanted.running else tuple(reversed(self.actuators))
        for actuator in order:
            if self._refusals.get(actuator.name, 0) < MOST_REFUSALS or actuator.name in self.needed:
                self._set(actuator, before, decision)

    def _set(self, actuator: Actuator, before: Setting, decision: Decision) -> None:
        rule = "; ".join(dict.fromkeys(decision.reasons.values())) or "as before"
        if self.dry_run:
            if before != decision.setting:
                self.record(
                    Acted(self.now_s, actuator.name, "setting", _told(before), _told(decision.setting), rule, True)
                )
            return
        try:
            changes = actuator.set(decision.setting)
        except KnobRefused as error:
            if actuator.name in self.needed:
                raise
            refusals = self._refusals[actuator.name] = self._refusals.get(actuator.name, 0) + 1
            more = "; it is left alone from now on" if refusals == MOST_REFUSALS else ""
            self.record(Noted(self.now_s, f"{actuator.name}: {error}{more}"))
            return
        self._refusals.pop(actuator.name, None)
        for change in changes:
            self.record(Acted(self.now_s, actuator.name, change.knob, change.old, change.new, rule))

    def _noted(self, tend: Callable[[], Sequence[JobEvent]]) -> bool:
        """Look after the jobs; where the engine or the store is away, say so once, and go on guarding.

        Returns whether something became of a job.
        """
        try:
            events = tend()
        except (Transient, DeploymentFailed) as error:
            if not self._silent:
                self.record(Noted(self.now_s, str(error)))
            self._silent = True
            return False
        self._silent = False
        for event in events:
            self.record(JobNoted(self.now_s, event.job.number, event.job.spec.name, event.text))
        return bool(events)


def _told(setting: Setting) -> str:
    if not setting.running:
        return "BE stands still"
    kind = "cores" if setting.exclusive else "cores' time on LC's cores"
    disk = "" if setting.disk_mbs is None else f", {setting.disk_mbs:g} MB/s of the disk"
    return f"BE has {setting.cores:g} {kind}, {setting.ways} ways, {setting.mbps:g} Mb/s{disk}"
