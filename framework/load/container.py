"""Tailor's load generator, run as a container on the application's own network, and its reports.

On that network it calls services by name, so no request passes a published port.  It gets a large share of the
processor, because a generator that waits for the processor measures its own delay.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framework.errors import DeploymentFailed, InputError, LoadFailed, MissingPrerequisite, TestbedUnavailable
from framework.load.registry import GENERATORS
from framework.load.result import load_result
from framework.model import Application, LoadPlan, LoadResult, Running, Usage
from framework.model.side_container import Ended, SideContainer
from framework.ports.load import LoadGenerator
from framework.ports.side_containers import SideContainers
from framework.ports.testbed import Progress

IMAGE = "tailor/loadgen:5"
PLAN = "/plan.json"

CPU_SHARES = 262_144
"""The largest share that Linux allows; a service has 1,024.  The generator needs little CPU time, but at once."""

CORES_TO_PIN = 4
"""With at least so many cores, the generator is pinned to the last one; with fewer, the services need all."""

GRACE_S = 120.0
"""Time allowed beside the plan's own for start, schedule, export of spans and result."""

LOGIN_LIMIT_S = 120.0
"""Limit of the users' log-in where the workload gives none (loadgen/users.go)."""

LOG_LINES = 20

UNKNOWN_KEY = "plan: json: unknown field"
"""Beginning of the generator's message on a key of the plan that it does not know (loadgen/plan.go)."""


@GENERATORS.register("tailor")
def generator(application: Application, containers: SideContainers) -> LoadGenerator:
    """Return Tailor's own generator for an application, whose plans have its workload."""
    return ContainerLoad(application, containers)


class ContainerLoad:
    """Load generator in a container beside the deployment; implements ``framework.ports.load.LoadGenerator``."""

    def __init__(
        self,
        application: Application,
        containers: SideContainers,
        *,
        image: str = IMAGE,
        cpuset: str | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        """Set up the generator.

        ``cpuset``: its CPUs; empty: all, None: the last core of a machine with four or more.  ``grace_s``: time allowed
        beyond a run's warm-up, window and time to answer.
        """
        tracing = application.tracing
        # A store of another API may not take OTLP: the generator then keeps its root spans, and they are joined later.
        self._reports = tracing is not None and tracing.joins
        exports = tracing is not None and not tracing.joins
        self._otlp_endpoint = f"http://{tracing.service}:{tracing.otlp_port}" if tracing and exports else ""
        self._propagation = tracing.propagation if tracing is not None else ()
        self._containers = containers
        self._image = image
        self._cpuset = cpuset
        self._grace_s = grace_s

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        """Drive the load; calls ``usage`` at the start and the end of the window.

        Raises LoadFailed when the generator did not finish the plan, InputError when it refuses the plan,
        MissingPrerequisite without its image, DeploymentFailed when ``usage`` finds that a service has ended,
        TestbedUnavailable when the engine does not answer.
        """
        report = _Report(progress, usage)
        ended, limit_s = self._drive(plan, running, report)
        return report.conclude(ended, limit_s)

    def follow(
        self, plan: LoadPlan, running: Running, window: Callable[[Mapping[str, Any]], None], *, live_ms: int
    ) -> None:
        """Drive the load of a plan without traces; calls ``window`` with an event each ``live_ms``.

        Requests are forgotten when they have ended, so that a run may last for hours.  An exception of ``window`` ends
        the run.  Raises as ``run`` does.
        """
        report = _Report(lambda step: None, window=window)
        ended, limit_s = self._drive(plan, running, report, live_ms)
        report.last(ended, limit_s)

    def missing(self) -> str:
        """Say what is missing for a run, in a plain sentence; empty where nothing is."""
        try:
            return "" if self._containers.has_image(self._image) else f"the image {self._image} is not here"
        except TestbedUnavailable as error:
            return str(error)

    def _drive(self, plan: LoadPlan, running: Running, report: _Report, live_ms: int = 0) -> tuple[Ended, float]:
        """Return the end of a run and its time limit [s]."""
        if not self._containers.has_image(self._image):
            raise MissingPrerequisite(f"the load generator's image {self._image} is not here", "run `make images`")
        wanted = self._wanted(plan, running, live_ms)
        try:
            return self._containers.run(wanted, report.line), wanted.limit_s
        except DeploymentFailed as error:
            if error is report.problem:  # a service of the deployment ended; the generator did not fail
                raise
            raise LoadFailed(f"the engine could not run the load generator: {error.reason}") from error

    def _wanted(self, plan: LoadPlan, running: Running, live_ms: int) -> SideContainer:
        deployment = running.deployment
        chosen = generator_cpuset(self._containers.cores()) if self._cpuset is None else self._cpuset
        document = _document(plan, self._otlp_endpoint, self._propagation, report=self._reports, live_ms=live_ms)
        return SideContainer(
            image=self._image,
            command=(PLAN,),
            name=f"{deployment.project}-loadgen",
            project=deployment.project,
            network=running.network,
            also=running.also,
            labels={**deployment.labels, "tailor.role": "loadgen"},
            files={PLAN: document},
            cpus=plan.cpus or chosen,
            cpu_shares=CPU_SHARES,
            capabilities=("SYS_NICE",),
            limit_s=plan.warmup_s + plan.window_s + _timeout_s(plan) + _login_s(plan) + self._grace_s,
        )


class _Report:
    """Reports of the generator so far: its phases, its progress, its result."""

    def __init__(
        self,
        progress: Progress,
        usage: Callable[[], Usage] | None = None,
        window: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._progress, self._usage, self._window = progress, usage, window
        self._usages: dict[str, Usage] = {}
        self._last: Mapping[str, Any] = {}
        self._phase = "start"
        self.problem: DeploymentFailed | None = None  # raised when the usage was read

    def line(self, line: bytes) -> None:
        """Take one line of the generator's output, an event.  Raises LoadFailed."""
        event = _event(line)
        match event.get("event"):
            case "phase":
                self._phase = str(event["name"])
                if self._usage is not None and self._phase in ("window", "drain"):
                    self._usages[self._phase] = self._read_usage(self._usage)
                self._progress(self._phase)
            case "progress":
                failed = f", {event['failed']} failed" if event["failed"] else ""
                self._progress(f"{self._phase}: {event['finished']} of {event['planned']} requests{failed}")
            case "window" if self._window is not None:
                self._window(event)
            case "result" | "problem":
                self._last = event
            case other:
                raise LoadFailed(f"the generator reports an unknown event {other!r}: `make images`")

    def _read_usage(self, usage: Callable[[], Usage]) -> Usage:
        try:
            return usage()
        except DeploymentFailed as error:
            self.problem = error
            raise

    def conclude(self, ended: Ended, limit_s: float) -> LoadResult:
        """Return the result of a run that has ended.  Raises LoadFailed, InputError."""
        last = self.last(ended, limit_s)
        missing = {"window", "drain"} - set(self._usages)
        if missing:
            raise LoadFailed(f"the load generator did not report its phases {', '.join(sorted(missing))}")
        return load_result(last, self._usages["window"], self._usages["drain"])

    def last(self, ended: Ended, limit_s: float) -> Mapping[str, Any]:
        """Return the last event of a run that has come to its end.  Raises LoadFailed, InputError."""
        last, phase = self._last, self._phase
        if last.get("event") == "problem":
            message = f"the load generator: {last.get('message')}"
            if str(last.get("message")).startswith(UNKNOWN_KEY):
                message += f"; its image {IMAGE} is older than this program: `make images`"
            raise InputError(message) if last.get("refused") else LoadFailed(message)
        if ended.late:
            raise LoadFailed(f"the load generator had not finished after {limit_s:.0f} s (in {phase})")
        if last.get("interrupted"):
            raise LoadFailed(f"the load generator was interrupted in {phase}")
        if ended.status != 0 or not last:
            log = "".join(f"\n  | {line}" for line in ended.errors.strip().splitlines()[-LOG_LINES:])
            raise LoadFailed(f"the load generator ended in {phase} with status {ended.status}{log}")
        return last


def generator_cpuset(cores: int) -> str:
    """Return the CPUs to which the generator is pinned; empty where the machine has too few to give it one."""
    return str(cores - 1) if cores >= CORES_TO_PIN else ""


def _timeout_s(plan: LoadPlan) -> float:
    return float(plan.workload.document.get("timeout_ms", 0)) / 1000  # without it the generator refuses the plan


def _login_s(plan: LoadPlan) -> float:
    """Return the most that the users' log-in may take [s]."""
    users = plan.workload.document.get("users")
    return float(users.get("login_limit_s", LOGIN_LIMIT_S)) if users and users.get("login") else 0.0


def _document(
    plan: LoadPlan, otlp_endpoint: str, propagation: Sequence[str] = (), *, report: bool = False, live_ms: int = 0
) -> bytes:
    """Return the plan as the JSON that the generator reads.

    ``propagation``: formats of the trace's context.  ``report``: the ids of root spans are part of the result.
    ``live_ms``: time between two events that tell which requests ended; then no result tells of them again.
    """
    document: dict[str, Any] = {
        "workload": plan.workload.document,
        "rate_rps": plan.rate_rps,
        "arrivals": plan.workload.arrivals,
        "warmup_s": plan.warmup_s,
        "window_s": plan.window_s,
        "seed": plan.seed,
        "target": plan.workload.target,
        "otlp_endpoint": otlp_endpoint if plan.trace else "",
        "trace": plan.trace,
        "propagation": list(propagation),
    }
    if report and plan.trace:
        document["roots"] = "report"
    if plan.profile:
        document["profile"] = [{"at_s": point.at_s, "rate_rps": point.rate_rps} for point in plan.profile]
    if live_ms:
        document |= {"live_ms": live_ms, "forget": True}
    if plan.workload.files:
        contents = {name: base64.b64encode(content).decode() for name, content in plan.workload.files.items()}
        document["files"] = contents
    return json.dumps(document).encode()


def _event(line: bytes) -> Mapping[str, Any]:
    try:
        event = json.loads(line)
    except ValueError as error:
        raise LoadFailed(f"the load generator wrote something that is not an event: {line[:200]!r}") from error
    if not isinstance(event, dict):
        raise LoadFailed(f"the load generator wrote something that is not an event: {line[:200]!r}")
    return event
