"""A compose project that a guard protects: its containers are looked at, never changed but for their CPU sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from framework.errors import DeploymentFailed, TestbedUnavailable
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.running_stack import PROJECT

AGAIN_S = 5.0  # how long a list of containers is believed while their processes live


class GuardedProject:
    """The containers of a project.  ``alive``: whether a process still exists.  ``protected``: services
    that may not run on BE's CPUs; empty: all.
    """

    def __init__(
        self, engine: Engine, project: str, alive: Callable[[int], bool], protected: Collection[str] = ()
    ) -> None:
        self._protected = frozenset(protected)
        self._engine, self._project, self._alive = engine, project, alive
        self._pids: dict[str, int] = {}
        self._services: dict[str, str] = {}
        self._asked_s = -AGAIN_S

    def pids(self) -> Mapping[str, int]:
        """Return container -> its first process, of those that run.

        The engine is asked again where one has ended, else every few seconds; where it does not answer, those that are
        known go on counting.
        """
        now = time.monotonic()
        if now - self._asked_s >= AGAIN_S or not all(self._alive(pid) for pid in self._pids.values()):
            self._asked_s = now
            try:
                self._ask()
            except (TestbedUnavailable, DeploymentFailed):  # it is away, coming or going
                self._pids = {name: pid for name, pid in self._pids.items() if self._alive(pid)}
        return self._pids

    def spared(self) -> frozenset[str]:
        """Return the containers, of those that run, whose services need no protection."""
        if not self._protected:
            return frozenset()
        return frozenset(name for name, service in self._services.items() if service not in self._protected)

    def services(self) -> Sequence[str]:
        """Return the services that run.  Raises TestbedUnavailable."""
        self._ask()
        return sorted(set(self._services.values()))

    def _ask(self) -> None:
        pids, services = dict[str, int](), dict[str, str]()
        for container in self._engine.containers(f"{PROJECT}={self._project}"):
            if container.state != "running" or not container.service:
                continue
            known = self._pids.get(container.id)
            if known is None or not self._alive(known):
                about = self._engine.inspect(container.id)
                known = int(about["State"]["Pid"]) if about is not None else 0
            if known:
                pids[container.id], services[container.id] = known, container.service
        self._pids, self._services = pids, services
