"""Waiting until a deployment is ready: by the application's own health checks, else by the service type's probe.

One call to the engine per round returns every container's state.  A container that exits or restarts ends the wait at
once; its last lines are in the error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
PROBE_S = 1.0

_EXIT_CODE = re.compile(r"\((\d+)\)")


@dataclass(slots=True)
class _Service:
    """One service during the wait; ``last``: why it was not ready when last asked."""

    name: str
    probe: Probe | None
    last: str = "not asked yet"
    next_at: float = 0.0
    pause_s: float = ROUND_S
    running_since: float | None = None
    listed: Listed | None = field(default=None)


class Readiness:
    """Readiness of the services of one project.  ``finite``: services that may exit with 0."""

    def __init__(self, engine: Engine, project: str, finite: frozenset[str]) -> None:
        self._engine = engine
        self._project = project
        self._finite = finite

    def wait(
        self, services: Mapping[str, Probe | None], timeout_s: float, progress: Callable[[str], None]
    ) -> dict[str, Listed]:
        """Wait until all services are ready; returns service -> container.

        Raises DeploymentFailed with a container's last lines.
        """
        deadline = time.monotonic() + timeout_s
        waiting = {name: _Service(name, probe) for name, probe in services.items()}
        ready: dict[str, Listed] = {}
        while True:
            self._look(waiting, ready)
            due = [service for service in waiting.values() if service.next_at <= time.monotonic()]
            for service, is_ready in zip(due, in_parallel(self._is_ready, due), strict=True):
                if is_ready and service.listed is not None:
                    ready[service.name] = service.listed
                    del waiting[service.name]
            if not waiting:
                return ready
            if time.monotonic() > deadline:
                self._give_up(next(iter(waiting.values())), timeout_s)
            progress(f"waiting for {len(waiting)} of {len(services)}: {', '.join(sorted(waiting)[:3])}")
            time.sleep(ROUND_S)

    def _look(self, waiting: Mapping[str, _Service], ready: Mapping[str, Listed]) -> None:
        """Note every container's state.  Raises DeploymentFailed for one that ended."""
        containers = self._engine.containers(f"{PROJECT}={self._project}")
        by_service = {container.service: container for container in containers if container.service}
        for name in [*waiting, *ready]:
            container = by_service.get(name)
            if container is None:
                raise DeploymentFailed("it has no container", name)
            if container.state == "exited" and name in self._finite and _exit_code(container) == 0:
                pass
            elif container.state in ("exited", "dead", "restarting", "removing", "paused"):
                raise DeploymentFailed(f"its container is {ended(container)}", name, self._engine.logs(container.id))
            if name in waiting:
                waiting[name].listed = container

    def _is_ready(self, service: _Service) -> bool:
        container = service.listed
        if container is None or container.state == "created":
            return False
        if container.state == "exited" or "(healthy)" in container.status:
            return True
        if "(unhealthy)" in container.status:
            raise DeploymentFailed("its own health check fails", service.name, self._engine.logs(container.id))
        if "(health: starting)" in container.status:
            service.last = "its own health check has not passed yet"
            return False
        now = time.monotonic()
        if service.probe is None:
            service.running_since = service.running_since or now
            return now - service.running_since >= SETTLE_S
        try:
            address = next((ip for ip in container.addresses.values() if ip), "")
            answer = probes.ask(self._engine, container.id, address, service.probe, PROBE_S)
            probes.parse(service.probe, answer, "")
        except probes.NoAnswer as error:
            service.last = str(error)
            service.next_at, service.pause_s = now + service.pause_s, min(service.pause_s * 1.5, SLOWEST_ROUND_S)
            return False
        return True

    def _give_up(self, service: _Service, timeout_s: float) -> None:
        log = self._engine.logs(service.listed.id) if service.listed else ""
        raise DeploymentFailed(f"not ready after {timeout_s:g} s: {service.last}", service.name, log)


def ended(container: Listed) -> str:
    """Describe a container's end: "exited with 1"."""
    code = _exit_code(container)
    return container.state if code is None else f"{container.state} with {code}"


def _exit_code(container: Listed) -> int | None:
    match = _EXIT_CODE.search(container.status)
    return int(match[1]) if match else None
