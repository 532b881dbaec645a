"""Runs the load generator as a container on the application's own network and reads what it reports.

On that network it calls services by name, so nothing passes a published port.  It gets a large share of the processor,
because a generator that waits for one measures itself.
"""

from __future__ import annotations

import io
import json
import tarfile
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

import docker
import docker.errors
import docker.types
import docker.utils
import docker.utils.socket
import requests.exceptions

from framework.errors import InputError, LoadFailed, MissingPrerequisite, TestbedUnavailable
from framework.load.result import load_result
from framework.model import Application, LoadPlan, LoadResult, Running, Usage
from framework.ports import Progress

IMAGE = "tailor/loadgen:1"
PLAN = "plan.json"

CPU_SHARES = 262_144
"""The largest share that Linux knows; a service has 1,024.  The generator uses little of it, but gets it at once."""

CORES_TO_PIN = 4
"""From so many cores on, the generator is kept on the last one; with fewer that would only take from the services."""

GRACE_S = 120.0
"""What start, schedule, export of spans and result may take beside the plan's own time."""

REMOVALS = 40
REMOVAL_PAUSE_S = 0.25
"""A container that is already being removed is waited for, ten seconds in all."""

LOG_LINES = 20


class ContainerLoad:
    """``framework.ports.LoadGenerator`` on the Docker Engine that ``DOCKER_HOST`` names (or the local socket)."""

    def __init__(
        self, application: Application, *, image: str = IMAGE, cpuset: str | None = None, grace_s: float = GRACE_S
    ) -> None:
        """``cpuset``: the generator's CPUs; empty for all, None for the last core of a machine with four or more.

        ``grace_s``: what a run may take beyond its warm-up, window and time to answer.
        """
        tracing = application.tracing
        self._otlp_endpoint = f"http://{tracing.service}:{tracing.otlp_port}"
        self._image = image
        self._cpuset = cpuset
        self._grace_s = grace_s
        self._client: docker.APIClient | None = None

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        """Drive the load.  ``usage`` is called at the start and the end of the window.

        Raises LoadFailed when the plan was not carried out to its end, InputError when the generator refuses it,
        MissingPrerequisite without its image, TestbedUnavailable when the engine does not answer.
        """
        name = f"{running.deployment.project}-loadgen"
        with _translated():
            api = self._connected()
            _remove(api, name)
        try:
            with _translated():
                container = self._create(api, name, running, plan.cpus)
                api.put_archive(container, "/", _archive(PLAN, _document(plan, self._otlp_endpoint)))
            limit_s = plan.warmup_s + plan.window_s + _timeout_s(plan) + self._grace_s
            return _Run(api, container, limit_s, usage, progress).result()
        finally:
            with _translated():
                _remove(api, name)

    def _create(self, api: docker.APIClient, name: str, running: Running, cpus: str) -> str:
        chosen = generator_cpuset(int(api.info()["NCPU"])) if self._cpuset is None else self._cpuset
        cpuset = cpus or chosen
        deployment = running.deployment
        created = api.create_container(
            self._image,
            [f"/{PLAN}"],
            name=name,
            labels={**deployment.labels, "tailor.role": "loadgen"},
            host_config=api.create_host_config(
                network_mode=running.network,
                cap_add=["SYS_NICE"],
                cpu_shares=CPU_SHARES,
                cpuset_cpus=cpuset or None,
                # Its output is read while it runs; a log file of the same would only cost writes.
                log_config=docker.types.LogConfig(type="none"),
            ),
        )
        return str(created["Id"])

    def _connected(self) -> docker.APIClient:
        if self._client is None:
            options: dict[str, Any] = {"version": "auto", **docker.utils.kwargs_from_env()}
            self._client = docker.APIClient(**options)
            weakref.finalize(self, self._client.close)
        return self._client


class _Run:
    """One run of a created container: its events as they come, its end, its result."""

    def __init__(
        self, api: docker.APIClient, container: str, limit_s: float, usage: Callable[[], Usage], progress: Progress
    ) -> None:
        self._api, self._container, self._limit_s = api, container, limit_s
        self._usage, self._progress = usage, progress
        self._errors = bytearray()
        self._usages: dict[str, Usage] = {}
        self._last: Mapping[str, Any] | None = None
        self._late = threading.Event()

    def result(self) -> LoadResult:
        phase = "start"
        with closing(self._events()) as events:
            for event in events:
                match event.get("event"):
                    case "phase":
                        phase = str(event["name"])
                        if phase in ("window", "drain"):
                            self._usages[phase] = self._usage()
                        self._progress(phase)
                    case "progress":
                        failed = f", {event['failed']} failed" if event["failed"] else ""
                        self._progress(f"{phase}: {event['finished']} of {event['planned']} requests{failed}")
                    case "result" | "problem":
                        self._last = event
                    case other:
                        raise LoadFailed(f"the generator reports an unknown event {other!r}: `make images`")
        with _translated():
            status = int(self._api.wait(self._container)["StatusCode"])
        return self._conclude(status, phase)

    def _conclude(self, status: int, phase: str) -> LoadResult:
        last = self._last or {}
        if last.get("event") == "problem":
            message = f"the load generator: {last.get('message')}"
            raise InputError(message) if last.get("refused") else LoadFailed(message)
        if self._late.is_set():
            raise LoadFailed(f"the load generator had not finished after {self._limit_s:.0f} s (in {phase})")
        if last.get("interrupted"):
            raise LoadFailed(f"the load generator was interrupted in {phase}")
        if status != 0 or not last:
            said = self._errors.decode(errors="replace").strip().splitlines()[-LOG_LINES:]
            log = "".join(f"\n  | {line}" for line in said)
            raise LoadFailed(f"the load generator ended in {phase} with status {status}{log}")
        missing = {"window", "drain"} - set(self._usages)
        if missing:
            raise LoadFailed(f"the load generator did not report its phases {', '.join(sorted(missing))}")
        return load_result(last, self._usages["window"], self._usages["drain"])

    def _events(self) -> Generator[Mapping[str, Any], None, None]:
        """Start the container and yield its events until its output ends."""
        with _translated():
            # Attached before it starts, so that nothing is missed.
            socket: Any = self._api.attach_socket(self._container, {"stdout": 1, "stderr": 1, "stream": 1})
            alarm = threading.Timer(self._limit_s, self._give_up)
            alarm.daemon = True
            try:
                self._api.start(self._container)
                alarm.start()
                for line in self._lines(socket):
                    yield _event(line)
            finally:
                alarm.cancel()
                socket._response.close()  # the SDK leaves it open
                socket.close()

    def _lines(self, socket: Any) -> Iterator[bytes]:
        pending = bytearray()
        frames: Any = docker.utils.socket.frames_iter(socket, tty=False)  # type: ignore[no-untyped-call]
        for stream, data in frames:
            if stream == docker.utils.socket.STDERR:
                self._errors += data
                continue
            searched = len(pending)
            pending += data
            while (end := pending.find(b"\n", searched)) >= 0:
                yield bytes(pending[:end])
                del pending[: end + 1]
                searched = 0

    def _give_up(self) -> None:
        self._late.set()
        # Where the container is gone already, or the engine too, reading its output ends by itself.
        with suppress(LoadFailed, TestbedUnavailable), _translated():
            self._api.kill(self._container)


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


def _archive(name: str, data: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), 0o444
        archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _event(line: bytes) -> Mapping[str, Any]:
    try:
        event = json.loads(line)
    except ValueError as error:
        raise LoadFailed(f"the load generator wrote something that is not an event: {line[:200]!r}") from error
    if not isinstance(event, dict):
        raise LoadFailed(f"the load generator wrote something that is not an event: {line[:200]!r}")
    return event


def _remove(api: docker.APIClient, name: str) -> None:
    """Kill and remove a container; done when none has the name."""
    for _ in range(REMOVALS):
        try:
            api.remove_container(name, force=True, v=True)
            return
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            if error.status_code != requests.codes.conflict:  # conflict: its removal is under way
                raise
        time.sleep(REMOVAL_PAUSE_S)
    raise LoadFailed(f"container {name} cannot be removed")


@contextmanager
def _translated() -> Iterator[None]:
    """The SDK's exceptions as Tailor's."""
    try:
        yield
    except docker.errors.ImageNotFound as error:
        raise MissingPrerequisite(f"the load generator's image: {error.explanation}", "run `make images`") from error
    except docker.errors.APIError as error:
        raise LoadFailed(f"the engine could not run the load generator: {error.explanation or error}") from error
    except (requests.exceptions.RequestException, docker.errors.DockerException, OSError) as error:
        raise TestbedUnavailable(f"the Docker Engine does not answer (load generator): {error}") from error
