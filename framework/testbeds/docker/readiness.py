"""Waiting until a deployment is ready: by the application's own health checks, else by the service type's probe.

One call to the engine per round returns every container's state.  A container that ends is an error at once, with its
last lines, unless it may end, or its file tells the engine to start it again: then the wait goes on.

A service without health check and probe is ready when a program in it listens, on whatever port; where it declares a
port and nothing listens for a while, as in a worker that shares the image of a server, when it runs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from framework.errors import DeploymentFailed
from framework.model import Probe
from framework.testbeds.docker import probes
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.listed import Listed
from framework.testbeds.docker.owner import PROJECT

ROUND_S = 0.05
SLOWEST_ROUND_S = 0.4  # between two probes of one slow service: a probe by command costs the machine a process
SETTLE_S = 0.3  # a service without health check and probe counts as ready after it has run this long
RESTARTED_SETTLE_S = 2.0  # the same of one that the engine starts again where it fails: it may fail at its first call
PROBE_S = 1.0
LISTEN_S = 10.0  # for a listener of a service that declares a port, and has neither health check nor probe

_EXIT_CODE = re.compile(r"\((\d+)\)")


@dataclass(slots=True)
class _Replica:
    """One container of a service during the wait; ``last``: why it was not ready when last asked."""

    name: str
    probe: Probe | None
    last: str = "not asked yet"
    next_at: float = 0.0
    pause_s: float = ROUND_S
    running_since: float | None = None
    listed: Listed | None = field(default=None)


class Readiness:
    """Readiness of the services of one project.

    ``finite``: services that may exit with 0.  ``restarted``: those that the engine starts again where they fail.
    ``replicas``: service -> number of its containers, where it is not 1.  ``patient``: a health check that fails may
    pass later, as where a first start takes longer than it allows.
    """

    def __init__(
        self,
        engine: Engine,
        project: str,
        finite: frozenset[str],
        restarted: frozenset[str] = frozenset(),
        replicas: Mapping[str, int] = MappingProxyType({}),
        *,
        patient: bool = False,
    ) -> None:
        self._engine = engine
        self._project = project
        self._finite = finite
        self._restarted = restarted
        self._replicas = replicas
        self._patient = patient

    def wait(
        self, services: Mapping[str, Probe | None], timeout_s: float, progress: Callable[[str], None]
    ) -> dict[str, list[Listed]]:
        """Wait until all containers of all services are ready; returns service -> containers.

        Raises DeploymentFailed with a container's last lines.
        """
        deadline = time.monotonic() + timeout_s
        counts = {name: self._replicas.get(name, 1) for name in services}
        waiting = {(name, at): _Replica(name, services[name]) for name, count in counts.items() for at in range(count)}
        ready: dict[tuple[str, int], Listed] = {}
        while True:
            self._look(waiting, ready)
            for key in [key for key, container in ready.items() if self._starts_again(container)]:
                del ready[key]
                waiting[key] = _Replica(key[0], services[key[0]])
            due = [(key, replica) for key, replica in waiting.items() if replica.next_at <= time.monotonic()]
            answers = in_parallel(lambda item: self._is_ready(item[1]), due)
            for (key, replica), is_ready in zip(due, answers, strict=True):
                if is_ready and replica.listed is not None:
                    ready[key] = replica.listed
                    del waiting[key]
            if not waiting:
                return {name: [ready[name, at] for at in range(count)] for name, count in counts.items()}
            if time.monotonic() > deadline:
                self._give_up(next(iter(waiting.values())), timeout_s)
            names = sorted({name for name, _ in waiting})
            progress(f"waiting for {len(names)} of {len(services)}: {', '.join(names[:3])}")
            time.sleep(ROUND_S)

    def _starts_again(self, container: Listed) -> bool:
        """Return whether a container failed and its file tells the engine to start it again."""
        failed = container.state == "restarting" or (container.state == "exited" and bool(_exit_code(container)))
        return failed and container.service in self._restarted

    def _look(self, waiting: Mapping[tuple[str, int], _Replica], ready: dict[tuple[str, int], Listed]) -> None:
        """Note every container's state.  Raises DeploymentFailed for one that ended."""
        containers = self._engine.containers(f"{PROJECT}={self._project}")
        by_service: dict[str, list[Listed]] = {}
        for container in sorted(containers, key=lambda container: container.name):
            by_service.setdefault(container.service, []).append(container)
        for key in [*waiting, *ready]:
            name, at = key
            listed = by_service.get(name, [])
            if at >= len(listed):
                raise DeploymentFailed("it has no container" if not at else f"it has {len(listed)} containers", name)
            container = listed[at]
            if self._starts_again(container):
                if key in waiting:
                    waiting[key].last = f"its container {ended(container)} and is started again"
                    waiting[key].running_since = None
            elif container.state == "exited" and name in self._finite and _exit_code(container) == 0:
                pass
            elif container.state in ("exited", "dead", "restarting", "removing", "paused"):
                raise DeploymentFailed(f"its container is {ended(container)}", name, self._engine.logs(container.id))
            if key in waiting:
                waiting[key].listed = container
            else:
                ready[key] = container

    def _is_ready(self, service: _Replica) -> bool:
        container = service.listed
        if container is None or container.state == "created":
            return False
        if container.state == "restarting" or (container.state == "exited" and _exit_code(container)):
            return False  # the engine starts it again
        if container.state == "exited" or "(healthy)" in container.status:
            return True
        if "(unhealthy)" in container.status and (self._patient or service.name in self._restarted):
            service.last = "its own health check fails"
            return False
        if "(unhealthy)" in container.status:
            raise DeploymentFailed("its own health check fails", service.name, self._engine.logs(container.id))
        if "(health: starting)" in container.status:
            service.last = "its own health check has not passed yet"
            return False
        now = time.monotonic()
        if service.probe is None or service.probe.kind == "listens":
            service.running_since = service.running_since or now
            settle_s = RESTARTED_SETTLE_S if service.name in self._restarted else SETTLE_S
            ran_s = now - service.running_since
            if ran_s < settle_s:
                return False
            if service.probe is None:
                if not container.ports or ran_s >= LISTEN_S:
                    return True
                service.last = f"nothing listens in it (it declares {', '.join(map(str, container.ports))})"
                service.next_at, service.pause_s = now + service.pause_s, min(service.pause_s * 1.5, SLOWEST_ROUND_S)
                return probes.listens(self._engine, container.id)
        try:
            address = next((ip for ip in container.addresses.values() if ip), "")
            answer = probes.ask(self._engine, container.id, address, service.probe, PROBE_S)
            probes.parse(service.probe, answer, "")
        except probes.NoAnswer as error:
            service.last = str(error)
            service.next_at, service.pause_s = now + service.pause_s, min(service.pause_s * 1.5, SLOWEST_ROUND_S)
            return False
        return True

    def _give_up(self, service: _Replica, timeout_s: float) -> None:
        log = self._engine.logs(service.listed.id) if service.listed else ""
        raise DeploymentFailed(f"not ready after {timeout_s:g} s: {service.last}", service.name, log)


def ended(container: Listed) -> str:
    """Describe a container's end: "exited with 1"."""
    code = _exit_code(container)
    return container.state if code is None else f"{container.state} with {code}"


def _exit_code(container: Listed) -> int | None:
    match = _EXIT_CODE.search(container.status)
    return int(match[1]) if match else None
