"""The way from this machine into a deployment on a swarm: Tailor's containers on the nodes, and addresses that reach.

Code that talks to a container's address works unchanged: a container gets a loopback address of this machine, from
which a relay leads to the overlay network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from framework.errors import TestbedUnavailable
from framework.model import Application, Container, Deployment, ServiceType
from framework.testbeds.docker.connection import Connection, in_parallel
from framework.testbeds.docker.listed import Listed
from framework.testbeds.docker.owner import Owner
from framework.testbeds.swarm import agents
from framework.testbeds.swarm.fleet import Node
from framework.testbeds.swarm.overlay import wait_until_known
from framework.testbeds.swarm.relay import Relay

NOT_HEALTHY = ("(health: starting)", "(unhealthy)")
SOME_BYTES = 1 << 20  # of a file that a disk with room takes


class WayIn:
    """Tailor's containers on the nodes and networks of one deployment; the relay goes through that of the home node."""

    def __init__(self, application: Application | None) -> None:
        self._application = application
        self._relay: Relay | None = None
        self._nodes: tuple[Node, ...] = ()
        self.home_agent = ""  # its container on the home node
        self._agents: dict[str, str] = {}  # id of a node -> its container
        self._types: Mapping[str, ServiceType] = {}  # service -> its type
        self._project = ""

    def open(self, deployment: Deployment, nodes: Sequence[Node], home: Node) -> None:
        """Wait for the containers, which start with the stack.  Raises TestbedUnavailable."""
        self._types, self._project = deployment.types, deployment.project
        self._agents = agents.started(deployment.project, nodes)
        self._nodes, self.home_agent = tuple(nodes), self._agents[home.id]
        self._relay = Relay(home.engine, Connection(endpoint=home.endpoint), self.home_agent)

    def close(self) -> None:
        """Forget the deployment; its containers are removed with it."""
        if self._relay is not None:
            self._relay.close()
        self._relay, self._nodes, self._agents, self.home_agent = None, (), {}, ""

    def wait_until_known(self) -> None:
        """Wait until every node knows the containers that run: some services resolve names once, when they start.

        One whose health check has not passed yet has no name.  Raises TestbedUnavailable.
        """
        wait_until_known(self._nodes, self._agents, self._running)

    def _running(self) -> dict[str, list[str]]:
        """Return service -> the addresses of its containers on the overlay networks."""
        owner, known = str(Owner.project(self._project)), dict[str, list[str]]()
        for listed in in_parallel(lambda node: node.engine.containers(owner), self._nodes):
            for container in listed:
                if (
                    container.service
                    and container.state == "running"
                    and not any(word in container.status for word in NOT_HEALTHY)
                ):
                    known.setdefault(container.service, []).extend(ip for ip in container.addresses.values() if ip)
        return known

    def check(self, nodes: Sequence[Node]) -> None:
        """Raise TestbedUnavailable where a node's container no longer runs: its engine or its machine was restarted."""
        for node in nodes:
            about = (
                node.engine.inspect(self._agents[node.id]) if node.id in self._agents else {"State": {"Running": True}}
            )
            if about is None or not about["State"]["Running"]:
                raise TestbedUnavailable(f"the engine of node {node} was started again during the trial")

    def have_room(self, nodes: Sequence[Node]) -> bool:
        """Return whether every node's disk takes another file, of a megabyte, in its container of Tailor's."""
        owner = Owner.project(self._project)
        asked = [node for node in nodes if node.id in self._agents]
        return all(node.engine.takes_file(self._agents[node.id], SOME_BYTES, owner) for node in asked)

    def machines(self, nodes: Sequence[Node]) -> list[agents.Counters]:
        """Return the counters of the nodes' machines, each machine once; none before ``open``."""
        if not self._agents:
            return []
        return list({read.boot: read for read in agents.read(self._agents, nodes)}.values())

    def entered(self, listed: Listed) -> Listed:
        """Give a listed container the addresses that stand for it, with the port that its readiness is asked at."""
        if self._relay is None or listed.state != "running" or not listed.service:
            return listed
        overlays = {name: ip for name, ip in listed.addresses.items() if ip}
        kind = self._types.get(listed.service)
        port = kind.ready.port if kind is not None and kind.ready is not None else None
        for remote in overlays.values() if port is not None else ():
            self._relay.open(remote, [int(port or 0)])
        return replace(listed, addresses={name: self._relay.address(ip) for name, ip in overlays.items()})

    def reached(self, deployment: Deployment, containers: Mapping[str, Container]) -> dict[str, Container]:
        """Return the containers with the addresses that this machine reaches, at the ports where they listen."""
        relay = self._relay
        if relay is None:
            return dict(containers)
        ports = self._ports(deployment)
        every = [c for first in containers.values() for c in first.replicas if c.address]
        relay.keep_listening({c.address: ports.get(c.service, set()) | ports[""] for c in every})

        def moved(container: Container) -> Container:
            address = relay.address(container.address) if container.address else ""
            return replace(container, address=address, others=tuple(moved(other) for other in container.others))

        return {service: moved(container) for service, container in containers.items()}

    def _ports(self, deployment: Deployment) -> dict[str, set[int]]:
        """Return service -> the ports at which it is asked; under "", those of all services."""
        tracing = self._application.tracing if self._application is not None else None
        shared = [tracing.port, *([tracing.counters["port"]] if tracing.counters else [])] if tracing else []
        ports = {"": {int(port) for port in shared}}
        asked = [(expected.service, expected.probe) for expected in deployment.expectations]
        for service, kind in deployment.types.items():
            asked += [(service, probe) for probe in (kind.ready, *kind.statistics.values())]
        for service, probe in asked:
            if probe is not None and probe.port is not None:
                ports.setdefault(service, set()).add(int(probe.port))
        return ports
