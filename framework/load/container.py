"""Runs the load generator as a container on the application's own network and reads what it reports.

On that network it calls services by name, so nothing passes a published port.  It gets a large share of the processor,
because a generator that waits for one measures itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from framework.errors import DeploymentFailed, InputError, LoadFailed, MissingPrerequisite
from framework.load.registry import GENERATORS
from framework.load.result import load_result
from framework.model import Application, LoadPlan, LoadResult, Running, Usage
from framework.model.side_container import Ended, SideContainer
from framework.ports.load import LoadGenerator
from framework.ports.side_containers import SideContainers
from framework.ports.testbed import Progress

IMAGE = "tailor/loadgen:1"
PLAN = "/plan.json"

CPU_SHARES = 262_144
"""The largest share that Linux knows; a service has 1,024.  The generator uses little of it, but gets it at once."""

CORES_TO_PIN = 4
"""From so many cores on, the generator is kept on the last one; with fewer that would only take from the services."""

GRACE_S = 120.0
"""What start, schedule, export of spans and result may take beside the plan's own time."""

LOG_LINES = 20


@GENERATORS.register("tailor")
def generator(application: Application, containers: SideContainers) -> LoadGenerator:
    """Tailor's own generator, with the workload of the application."""
    return ContainerLoad(application, containers)


class ContainerLoad:
    """``framework.ports.load.LoadGenerator`` in a container beside the deployment."""

    def __init__(
        self,
        application: Application,
        containers: SideContainers,
        *,
        image: str = IMAGE,
        cpuset: str | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        """``cpuset``: the generator's CPUs; empty for all, None for the last core of a machine with four or more.

        ``grace_s``: what a run may take beyond its warm-up, window and time to answer.
        """
        tracing = application.tracing
        self._otlp_endpoint = f"http://{tracing.service}:{tracing.otlp_port}"
        self._containers = containers
        self._image = image
        self._cpuset = cpuset
        self._grace_s = grace_s

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        """Drive the load.  ``usage`` is called at the start and the end of the window.

        Raises LoadFailed when the plan was not carried out to its end, InputError when the generator refuses it,
        MissingPrerequisite without its image, TestbedUnavailable when the engine does not answer.
        """
        if not self._containers.has_image(self._image):
            raise MissingPrerequisite(f"the load generator's image {self._image} is not here", "run `make images`")
        wanted = self._wanted(plan, running)
        report = _Report(usage, progress)
        try:
            ended = self._containers.run(wanted, report.line)
        except DeploymentFailed as error:
            if error is report.problem:  # a service of the deployment ended, which has nothing to do with the generator
                raise
            raise LoadFailed(f"the engine could not run the load generator: {error.reason}") from error
        return report.conclude(ended, wanted.limit_s)

    def _wanted(self, plan: LoadPlan, running: Running) -> SideContainer:
        deployment = running.deployment
        chosen = generator_cpuset(self._containers.cores()) if self._cpuset is None else self._cpuset
        return SideContainer(
            image=self._image,
            command=(PLAN,),
            name=f"{deployment.project}-loadgen",
            project=deployment.project,
            network=running.network,
            labels={**deployment.labels, "tailor.role": "loadgen"},
            files={PLAN: _document(plan, self._otlp_endpoint)},
            cpus=plan.cpus or chosen,
            cpu_shares=CPU_SHARES,
            capabilities=("SYS_NICE",),
            limit_s=plan.warmup_s + plan.window_s + _timeout_s(plan) + self._grace_s,
        )


class _Report:
    """What the generator has reported so far: its phases, its progress, its result."""

    def __init__(self, usage: Callable[[], Usage], progress: Progress) -> None:
        self._usage, self._progress = usage, progress
        self._usages: dict[str, Usage] = {}
        self._last: Mapping[str, Any] = {}
        self._phase = "start"
        self.problem: DeploymentFailed | None = None  # what asking for the usage came upon

    def line(self, line: bytes) -> None:
        """One line of its output, an event.  Raises LoadFailed."""
        event = _event(line)
        match event.get("event"):
            case "phase":
                self._phase = str(event["name"])
                if self._phase in ("window", "drain"):
                    self._usages[self._phase] = self._used()
                self._progress(self._phase)
            case "progress":
                failed = f", {event['failed']} failed" if event["failed"] else ""
                self._progress(f"{self._phase}: {event['finished']} of {event['planned']} requests{failed}")
            case "result" | "problem":
                self._last = event
            case other:
                raise LoadFailed(f"the generator reports an unknown event {other!r}: `make images`")

    def _used(self) -> Usage:
        try:
            return self._usage()
        except DeploymentFailed as error:
            self.problem = error
            raise

    def conclude(self, ended: Ended, limit_s: float) -> LoadResult:
        """What came out.  Raises LoadFailed, InputError."""
        last, phase = self._last, self._phase
        if last.get("event") == "problem":
            message = f"the load generator: {last.get('message')}"
            raise InputError(message) if last.get("refused") else LoadFailed(message)
        if ended.late:
            raise LoadFailed(f"the load generator had not finished after {limit_s:.0f} s (in {phase})")
        if last.get("interrupted"):
            raise LoadFailed(f"the load generator was interrupted in {phase}")
        if ended.status != 0 or not last:
            log = "".join(f"\n  | {line}" for line in ended.errors.strip().splitlines()[-LOG_LINES:])
            raise LoadFailed(f"the load generator ended in {phase} with status {ended.status}{log}")
        missing = {"window", "drain"} - set(self._usages)
        if missing:
            raise LoadFailed(f"the load generator did not report its phases {', '.join(sorted(missing))}")
        return load_result(last, self._usages["window"], self._usages["drain"])


def generator_cpuset(cores: int) -> str:
    """The CPUs that the generator is kept on; empty where the machine has too few to give it one."""
    return str(cores - 1) if cores >= CORES_TO_PIN else ""


def _timeout_s(plan: LoadPlan) -> float:
    return float(plan.workload.document.get("timeout_ms", 0)) / 1000  # without it the generator refuses the plan


def _document(plan: LoadPlan, otlp_endpoint: str) -> bytes:
    """The plan as the generator reads it."""
    document = {
        "workload": plan.workload.document,
        "rate_rps": plan.rate_rps,
        "arrivals": plan.workload.arrivals,
        "warmup_s": plan.warmup_s,
        "window_s": plan.window_s,
        "seed": plan.seed,
        "target": plan.workload.target,
        "otlp_endpoint": otlp_endpoint if plan.trace else "",
        "trace": plan.trace,
    }
    return json.dumps(document).encode()


def _event(line: bytes) -> Mapping[str, Any]:
    try:
        event = json.loads(line)
    except ValueError as error:
        raise LoadFailed(f"the load generator wrote something that is not an event: {line[:200]!r}") from error
    if not isinstance(event, dict):
        raise LoadFailed(f"the load generator wrote something that is not an event: {line[:200]!r}")
    return event
