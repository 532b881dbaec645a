"""Guard a compose application: best-effort jobs beside it, as long as its tail latency stays inside the target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from framework.bench import Backends
from framework.compose import render
from framework.config.jobs_file import load_jobs
from framework.config.reading import RECORD_BYTES, read_text
from framework.config.writing import write_text
from framework.energy.power_catalogue import curve_of
from framework.errors import FieldName, InputError, MissingPrerequisite, TailorError
from framework.guard.audit import AUDIT, OUTPUT, REPORT, Audits, AuditWriter, read_audit
from framework.guard.blame import blame, on_the_critical_path, with_blame
from framework.guard.jobs import Jobs, totals
from framework.guard.loop import Guard
from framework.guard.policy import Policy
from framework.guard.request import policy_of, policy_options
from framework.model import Application, RatePoint, Running
from framework.model.batch_job import ENDED, BatchJob, JobSpec
from framework.model.energy import PowerCurve
from framework.model.events import PhaseStepStarted
from framework.model.guard import GuardDefaults, GuardedHost, target_of
from framework.model.guard_record import Began, EndedAt, Entry, JobNoted, Noted
from framework.placement.profile import read_profile
from framework.ports.guarded_machine import GuardedMachine
from framework.ports.job_queue import BatchQueue
from framework.ports.sensor import Sensor
from framework.report.guard import guard_page
from framework.study.locks import process_lock
from optimizer.space import Configuration

UNSHAPED = (
    "the link is divided among containers only: jobs that are commands have this machine's own network, where nothing "
    "limits what they send"
)


@dataclass(frozen=True, slots=True)
class GuardRequest:
    """``target``: empty: the application's own.  ``application``: its directory; None where a running project alone is
    guarded.  ``project``: a compose project that runs; empty: the application is deployed, and removed at the end.
    ``rate_rps``: load of Tailor's own; 0: the application's own day or rate where Tailor deploys it, and ``latency``
    names no other, else none.  ``load_profile``: a file of rates over a day, replayed in ``for_s`` seconds.
    ``latency``: where the tail latency is read, where Tailor drives no load.  ``peak_rps``: the rate that counts as a
    load of 1.  ``link_mbps``: of the outgoing link, ``disk_mbs``: of a disk; 0: not divided.  ``cpus``: to divide;
    empty: all.  ``for_s``: how long; None: until stopped.  ``profile``: of the application, by `tailor profile`.
    """

    target: str
    application: Path | None = None
    project: str = ""
    jobs: Path | None = None
    policy: str = "tailor"
    options: Mapping[str, str] = field(default_factory=dict)
    rate_rps: float = 0.0
    load_profile: Path | None = None
    latency: str = ""
    peak_rps: float = 0.0
    link_mbps: float = 0.0
    disk_mbs: float = 0.0
    cpus: tuple[int, ...] = ()
    for_s: float | None = None
    canary: bool = False
    profile: Path | None = None
    dry_run: bool = False
    seed: int = 1


Points = Callable[[Path, float, float], tuple[RatePoint, ...]]
"""Reads a load profile, for a length [s] and a peak rate [requests/s]."""


@dataclass(frozen=True, slots=True)
class LoadShape:
    """Load to drive: at one rate, or along a profile's points (seconds, requests a second)."""

    rate_rps: float
    points: tuple[RatePoint, ...] = ()
    seconds: float | None = None
    quantile: float = 0.95
    seed: int = 1

    @property
    def peak_rps(self) -> float:
        return max((point.rate_rps for point in self.points), default=self.rate_rps)


def load_shape(
    request: GuardRequest, quantile: float, application: Application | None, points: Points
) -> LoadShape | None:
    """Return the load to drive; None where the users' own load is watched.  Raises InputError."""
    rate, profile, for_s = request.rate_rps, request.load_profile, request.for_s
    asked = bool(rate) or profile is not None
    if request.latency and not asked:
        return None
    if not asked and (application is None or request.project):
        raise InputError(
            "nothing tells the tail latency; allowed: a load of Tailor's (", FieldName("rate_rps"), ", ",
            FieldName("load_profile"), "), or where it can be read (", FieldName("latency"), ")",
        )  # fmt: skip
    if application is None:
        raise InputError("a load needs an application with a workload; allowed: the directory of an application")
    own = application.guard
    if not asked and for_s is not None:
        profile = own.load_profile
    if profile is None:
        return LoadShape(rate or application.workload.rate_rps, (), for_s, quantile, request.seed)
    if for_s is None:
        raise InputError(FieldName("load_profile"), ": allowed: with ", FieldName("for_s"), ", in which it is replayed")
    peak = request.peak_rps or rate or own.peak_rps or application.workload.rate_rps
    return LoadShape(peak, points(profile, for_s, peak), for_s, quantile, request.seed)


@dataclass(frozen=True, slots=True)
class GuardTools:
    """Adapters of a guard.  ``check``: that a guard may run here (true: one that acts).  ``machine``: of a project, as
    a request wants it, with the services that are protected (empty: all).  ``driven``: drives a load in the block and
    yields the sensor of its latency.  ``watched``: the sensor of a text such as ``prometheus=URL``, for a quantile.
    """

    check: Callable[[bool], None]
    machine: Callable[[str, GuardRequest, Collection[str]], GuardedMachine]
    driven: Callable[[Application, Running, LoadShape], AbstractContextManager[Sensor]]
    watched: Callable[[str, float], Sensor]
    points: Points
    queue: BatchQueue


@dataclass(frozen=True, slots=True)
class Guarded:
    """A guard that has ended: its directory, why it ended, what it could not give back."""

    directory: Path
    reason: str
    left: tuple[str, ...]
    entries: Sequence[Entry]


class Guards:
    """Guards of this TAILOR_HOME, and the queue of their jobs."""

    def __init__(self, backends: Backends, tools: GuardTools) -> None:
        self._backends, self._tools = backends, tools
        self.audits = Audits(backends.home)

    @property
    def queue(self) -> BatchQueue:
        return self._tools.queue

    def add_jobs(self, path: Path) -> Sequence[BatchJob]:
        """Queue the jobs of a file.  Raises FileError, StoreError."""
        return self._tools.queue.add(load_jobs(path))

    def run(
        self, request: GuardRequest, watch: Callable[[Entry], None], step: Callable[[str], None],
        stopped: Callable[[], bool] = lambda: False,
    ) -> Guarded:  # fmt: skip
        """Guard until the time is over or it is stopped; everything is given back, whatever happens.

        Raises InputError, MissingPrerequisite, DeploymentFailed, KnobRefused where a needed knob is refused.
        """
        name, policy = policy_of(request.policy, request.options)
        application = None if request.application is None else self._backends.application(request.application)
        defaults = application.guard if application is not None else GuardDefaults()
        quantile, target_ms = target_of(request.target or defaults.target)
        shape = load_shape(request, quantile, application, self._tools.points)
        specs = load_jobs(request.jobs) if request.jobs is not None else []
        policy, protected = self._profiled(request, policy, specs)
        self._tools.check(not request.dry_run)  # now, and not after an application was deployed for nothing
        with self._lc(request, application, step) as (project, running):
            machine = self._tools.machine(project, request, protected)
            services = machine.services()
            if not services:
                raise InputError(
                    f"no container of the compose project {project} runs here; `docker compose ls` has those that do"
                )
            if protected and protected.isdisjoint(services):
                named = ", ".join(sorted(protected))
                raise InputError(FieldName("profile"), f": found one of {named}; allowed: one of {', '.join(services)}")
            if specs and not request.dry_run:
                self._tools.queue.add(specs)
            peak = request.peak_rps or defaults.peak_rps or (shape.peak_rps if shape else 0.0)
            if not peak and application is not None:
                peak = application.workload.rate_rps
            if not peak:
                raise InputError(FieldName("peak_rps"), ": found none; allowed: the highest rate that LC is to serve")
            host = GuardedHost(
                machine.cores, target_ms, peak, machine.ways, link_mbps=request.link_mbps, disk_mbs=request.disk_mbs
            )
            with self._sensor(request, application, running, shape, quantile) as latency:
                return self._guarded(request, machine, host, (name, policy), latency, quantile, project, watch, stopped)

    # ------------------------------------------------------------------ what is guarded

    def _profiled(
        self, request: GuardRequest, policy: Policy, specs: Sequence[JobSpec]
    ) -> tuple[Policy, frozenset[str]]:
        """Return the policy that knows whom to blame, and the services on the critical path; empty without a profile.

        Raises FileError, InputError.
        """
        path = request.profile
        if path is None:
            return policy, frozenset()
        profile = read_profile(read_text(path, RECORD_BYTES), str(path))
        waiting = [job.spec for job in self._tools.queue.all() if job.state not in ENDED]
        return with_blame(policy, blame(profile, [*specs, *waiting])), on_the_critical_path(profile)

    @contextmanager
    def _lc(
        self, request: GuardRequest, application: Application | None, step: Callable[[str], None]
    ) -> Iterator[tuple[str, Running | None]]:
        """Yield the project that runs, and its deployment where it is Tailor's own."""
        if request.project:
            yield request.project, None
            return
        if application is None:
            raise InputError("found neither an application nor a running project; allowed: one of them")
        with deployed(self._backends, application, step) as running:
            yield running.deployment.project, running

    def _sensor(
        self, request: GuardRequest, application: Application | None, running: Running | None,
        shape: LoadShape | None, quantile: float,
    ) -> AbstractContextManager[Sensor]:  # fmt: skip
        if shape is None:
            return nullcontext(self._tools.watched(request.latency, quantile))
        if application is None or running is None:
            raise MissingPrerequisite(
                "Tailor drives a load only against an application that it deployed",
                "leave out the project, or say where the tail latency of the users' own load can be read",
            )
        return self._tools.driven(application, running, shape)

    # ------------------------------------------------------------------ the guard itself

    def _guarded(
        self, request: GuardRequest, machine: GuardedMachine, host: GuardedHost, policy: tuple[str, Policy],
        latency: Sensor, quantile: float, project: str, watch: Callable[[Entry], None], stopped: Callable[[], bool],
    ) -> Guarded:  # fmt: skip
        # Before all else: where another guard runs, nothing of its is touched, its jobs and its journal included.
        left = [] if request.dry_run else list(machine.recover())
        directory = self.audits.new()
        audit = AuditWriter(directory, watch)
        sensors = [latency, *(sensor for sensor in machine.sensors if not sensor.missing())]
        actuators = [actuator for actuator in machine.actuators if not actuator.missing()]
        lacks = [(part.name, part.missing()) for part in machine.sensors]
        lacks += [(part.name, part.missing()) for part in machine.actuators]
        missing = [f"{name}: {why}" for name, why in lacks if why]
        jobs = Jobs(
            self._tools.queue, machine.runner, directory / OUTPUT, float(host.cores), machine.used, machine.end_work
        )
        guard = Guard(
            host, policy[1], sensors, actuators, machine.needed, jobs, self._backends.clock, audit.add, request.dry_run
        )
        at = datetime.now(UTC).isoformat(timespec="seconds")
        audit.add(
            Began(
                0.0,
                at,
                project,
                policy[0],
                policy_options(policy[1]),
                host,
                quantile,
                request.dry_run,
                tuple(missing),
                self._power(host),
            )
        )
        waiting = [job for job in self._tools.queue.all() if job.state not in ENDED]
        if request.link_mbps and any(job.spec.is_command for job in waiting):
            audit.add(Noted(0.0, UNSHAPED))
        reason = "stopped"
        try:
            if not request.dry_run:
                machine.prepare()
            reason = guard.run(request.for_s, stopped)
        except KeyboardInterrupt:
            reason = "interrupted"
        except TailorError as error:
            reason = str(error)
            raise
        finally:
            left += self._ended(request, guard, machine, jobs, audit)
            audit.add(EndedAt(guard.now_s, reason, *totals(self._tools.queue.all()), tuple(left)))
            audit.close()
            write_text(directory / REPORT, guard_page(read_audit(directory / AUDIT)))
        return Guarded(directory, reason, tuple(left), read_audit(directory / AUDIT))

    def _power(self, host: GuardedHost) -> PowerCurve | None:
        """Return the power of the part of this machine that is divided; None where its processor is not known."""
        machine = self._backends.machine()
        curve = curve_of(machine.cpu, machine.cores)
        return None if curve is None else curve.times(host.cores / machine.cores)

    def _ended(
        self, request: GuardRequest, guard: Guard, machine: GuardedMachine, jobs: Jobs, audit: AuditWriter
    ) -> Sequence[str]:
        """End the jobs and give everything back; returns what could not be."""
        for sensor in guard.sensors:
            sensor.close()
        if request.dry_run:
            return ()
        left = []
        try:
            for event in jobs.stop():
                audit.add(JobNoted(guard.now_s, event.job.number, event.job.spec.name, event.text))
        except TailorError as error:
            left.append(str(error))
        return [*left, *machine.restore()]


@contextmanager
def deployed(backends: Backends, application: Application, step: Callable[[str], None]) -> Iterator[Running]:
    """Deploy an application as its files say, under a project of its own, and remove it after the block.

    Raises InputError, MissingPrerequisite, DeploymentFailed.
    """
    kind = backends.kinds[0]
    types = backends.types_on(backends.machine_of(kind.name, application))
    testbed = backends.bench(kind.name, application, types, lambda event: _told(event, step)).testbed
    project = f"tailor-guard-{application.name}"
    testbed.check(application)
    labels = {"tailor.study": project, "tailor.application": application.name}
    deployment = render(application, types, Configuration({}), project=project, labels=labels)
    with process_lock(backends.home, project):
        testbed.clean(project)
        try:
            testbed.load_dataset(application, deployment, step)
            running = testbed.deploy(deployment, step)
            hook = application.hooks.prepare
            if hook is not None:
                testbed.run_hook(running, hook)
            yield running
        finally:
            step("removing the application")
            testbed.clean(project, data=True)


def _told(event: object, step: Callable[[str], None]) -> None:
    if isinstance(event, PhaseStepStarted):
        step(event.step)
