"""The engines of a swarm's nodes as one: containers, images and volumes are found on whichever node they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from framework.compose.placed import HOST_LABEL as HOST
from framework.errors import DeploymentFailed, MissingPrerequisite, TestbedUnavailable
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.listed import Listed
from framework.testbeds.docker.owner import Owner
from framework.testbeds.swarm.manager import Manager, seconds_of

CLOCK_S = 0.05
"""A clock that is off by less is not told: NTP keeps clocks within milliseconds, and one call takes some."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the swarm.  ``host``: its label; empty where it has none.

    ``state``: what the managers see of it, "ready" where it works.  ``clock_s``: by how much its clock is ahead of this
    machine's, to within the time of one call; None where it does not tell.
    """

    host: str
    id: str
    name: str
    address: str
    endpoint: str
    engine: Engine
    state: str = "ready"
    clock_s: float | None = None

    def __str__(self) -> str:
        return f"{self.host or self.name} ({self.endpoint})"

    @property
    def clock_is_off(self) -> str:
        """Say how far the node's clock is off; empty where it is not, or does not tell."""
        if self.clock_s is None or abs(self.clock_s) <= CLOCK_S:
            return ""
        side = "ahead of" if self.clock_s > 0 else "behind"
        return f"{abs(self.clock_s):.2f} s {side} this machine's: children of other hosts are moved into their parents"


@dataclass(frozen=True, slots=True)
class Swarm:
    """The nodes whose engines answer, and a manager.  ``lost``: those that do not answer, and why."""

    manager: Manager
    nodes: tuple[Node, ...]
    lost: tuple[str, ...] = ()

    @property
    def single(self) -> Node | None:
        """The node of a swarm that has only one, without a label."""
        return self.nodes[0] if len(self.nodes) == 1 and not self.lost and not self.nodes[0].host else None

    def host(self, name: str) -> Node:
        """Return the node that is a host; a single node is every host.  Raises MissingPrerequisite."""
        if self.single is not None:
            return self.single
        for node in self.nodes:
            if node.host == name:
                return node
        there = ", ".join(node.host for node in self.nodes if node.host) or "none"
        raise MissingPrerequisite(
            f"no node of the swarm has the label {HOST}={name}; nodes with such a label: {there}",
            f"docker node update --label-add {HOST}={name} NODE",
        )


def discover(endpoints: Sequence[str]) -> Swarm:
    """Ask every engine which node of the swarm it is.

    Raises MissingPrerequisite without engines, for one outside of a swarm or of another swarm, without a manager among
    them, and for two nodes with one label; TestbedUnavailable where no manager answers.
    """
    if not endpoints:
        raise MissingPrerequisite(
            "the swarm testbed needs the engines of the nodes", "set TAILOR_SWARM to their docker contexts or URLs"
        )
    engines = {endpoint: Engine(endpoint=endpoint) for endpoint in endpoints}
    answers = dict(zip(endpoints, in_parallel(lambda endpoint: _member(engines[endpoint]), endpoints), strict=True))
    lost = tuple(answer for answer in answers.values() if isinstance(answer, str))
    told = {endpoint: answer for endpoint, answer in answers.items() if not isinstance(answer, str)}
    infos = {endpoint: swarm for endpoint, (swarm, _) in told.items()}
    clocks = {endpoint: clock_s for endpoint, (_, clock_s) in told.items()}
    for endpoint, info in infos.items():
        if info.get("LocalNodeState") == "pending":
            raise TestbedUnavailable(f"{endpoint} is joining its swarm")
        if info.get("LocalNodeState") != "active":
            state = info.get("LocalNodeState") or "unknown"
            raise MissingPrerequisite(f"{endpoint} is not in a swarm: {state}", "docker swarm init, docker swarm join")
    managers = [endpoint for endpoint, info in infos.items() if info.get("ControlAvailable")]
    if not managers and lost:
        raise TestbedUnavailable(f"no manager of the swarm answers: {'; '.join(lost)}")
    if not managers:
        raise MissingPrerequisite("no engine of TAILOR_SWARM is a manager of the swarm", "add the context of a manager")
    manager, listed = _answering(managers)
    known = {str(node["ID"]): node for node in listed}
    nodes = []
    for endpoint, info in infos.items():
        about = known.get(str(info.get("NodeID")))
        if about is None:
            raise MissingPrerequisite(
                f"{endpoint} is in another swarm than {manager.endpoint}", "name one swarm's nodes"
            )
        labels = about["Spec"].get("Labels") or {}
        name = str((about.get("Description") or {}).get("Hostname", ""))
        address = str(info.get("NodeAddr") or "")
        state = str(about["Status"].get("State"))
        nodes.append(
            Node(
                labels.get(HOST, ""), str(about["ID"]), name, address, endpoint, engines[endpoint], state,
                clocks.get(endpoint),
            )
        )  # fmt: skip
    hosts = [node.host for node in nodes if node.host]
    for host in hosts:
        if hosts.count(host) > 1:
            raise MissingPrerequisite(
                f"{hosts.count(host)} nodes have the label {HOST}={host}", "give it to one of them"
            )
    return Swarm(manager, tuple(nodes), lost)


def _member(engine: Engine) -> tuple[Mapping[str, Any], float | None] | str:
    """Return an engine's place in its swarm and its clock; why there is no answer, where there is none."""
    try:
        engine.version()  # the first call to an engine takes longer than one that reads a clock may
        began_s = time.time()
        info = engine.info()
        ended_s = time.time()
    except TestbedUnavailable as error:
        return str(error)
    return info.get("Swarm") or {}, clock_ahead_s(str(info.get("SystemTime")), began_s, ended_s)


def clock_ahead_s(told: str, began_s: float, ended_s: float) -> float | None:
    """Return by how much an engine's clock is ahead of this machine's.

    ``told``: its time, in a call that began and ended at these times of this machine's clock: within them all are 0.
    """
    at_s = seconds_of(told)
    if not at_s:
        return None
    return at_s - ended_s if at_s > ended_s else min(0.0, at_s - began_s)


def _answering(endpoints: Sequence[str]) -> tuple[Manager, Sequence[Mapping[str, Any]]]:
    """Return the first manager that answers, and the nodes that it lists.  Raises TestbedUnavailable."""
    problem = TestbedUnavailable("no manager of the swarm answers")
    for endpoint in endpoints:
        manager = Manager(endpoint)
        try:
            return manager, manager.nodes()
        except (TestbedUnavailable, DeploymentFailed) as error:  # it answers, and has no leader
            problem = TestbedUnavailable(str(error))
    raise problem


class Fleet(Engine):
    """All engines of a swarm, asked like one.

    ``entered``: changes the addresses of listed containers to those that this machine reaches.
    """

    def __init__(self, swarm: Swarm, home: Node, entered: Callable[[Listed], Listed] = lambda listed: listed) -> None:
        super().__init__(endpoint=home.endpoint)
        self.swarm, self.home = swarm, home
        self.entered = entered
        self._places: dict[str, Engine] = {}  # container -> its engine

    def version(self) -> Mapping[str, Any]:
        """Return the version of the home node's engine.  Raises TestbedUnavailable where any node does not answer."""
        self._all(lambda engine: engine.version())
        return super().version()

    def containers(self, label: str | None = None) -> list[Listed]:
        """List containers of all nodes.  Raises TestbedUnavailable."""
        engines = [node.engine for node in self.swarm.nodes]
        everything: list[Listed] = []
        for engine, listed in zip(engines, self._all(lambda engine: engine.containers(label)), strict=True):
            for container in listed:
                self._places[container.id] = engine
                everything.append(self.entered(container))
        return everything

    def inspect(self, container: str) -> Mapping[str, Any] | None:
        return self.engine_of(container).inspect(container)

    def logs(self, container: str, lines: int = 20) -> str:
        return self.engine_of(container).logs(container, lines)

    def stats(self, container: str) -> Mapping[str, Any] | None:
        return self.engine_of(container).stats(container)

    def execute(self, container: str, command: Sequence[str]) -> tuple[int, str]:
        return self.engine_of(container).execute(container, command)

    def processes(self, container: str) -> Sequence[tuple[int, str]]:
        return self.engine_of(container).processes(container)

    def archive(self, container: str, path: str) -> bytes | None:
        return self.engine_of(container).archive(container, path)

    def image(self, name: str) -> Mapping[str, Any] | None:
        """Inspect an image on the first node that has it."""
        return next((about for node in self.swarm.nodes if (about := node.engine.image(name)) is not None), None)

    def set_cpus(self, container: str, cpus: str, owner: Owner) -> None:
        self.engine_of(container).set_cpus(container, cpus, owner)

    def remove(self, containers: Iterable[str], owner: Owner) -> None:
        """Kill and remove containers of ``owner``, each on its node."""
        by_engine: dict[int, list[str]] = {}
        engines = {id(node.engine): node.engine for node in self.swarm.nodes}
        for container in containers:
            by_engine.setdefault(id(self.engine_of(container)), []).append(container)
        in_parallel(lambda item: engines[item[0]].remove(item[1], owner), by_engine.items())

    def engine_of(self, container: str) -> Engine:
        """Return the engine that has a container; the home node's for one that was never listed."""
        return self._places.get(container, self.home.engine)

    def _all(self, call: Callable[[Engine], T]) -> list[T]:
        """Ask every node.  Raises TestbedUnavailable, which names the node."""

        def ask(node: Node) -> T:
            try:
                return call(node.engine)
            except TestbedUnavailable as error:
                raise TestbedUnavailable(f"node {node}: {error}") from error

        return in_parallel(ask, self.swarm.nodes)
