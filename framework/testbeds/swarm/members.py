"""The swarm of one testbed: discovered when it is needed, and anew for each deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from framework.compose.hosts import as_designed
from framework.errors import TestbedUnavailable
from framework.model import Application
from framework.ports.side_containers import SideContainers
from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.listed import Listed
from framework.testbeds.docker.side_containers import DockerSideContainers
from framework.testbeds.swarm.fleet import Fleet, Node, Swarm, discover
from framework.testbeds.swarm.manager import LossWatch
from framework.testbeds.swarm.side_containers import OnAgent


class Members:
    """The nodes whose engines ``endpoints`` names.

    ``application``: decides which node is the home; None: the first.  ``entered``: see ``Fleet``.  ``home_agent``:
    Tailor's container on the home node, whose networks side containers use.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        application: Application | None,
        entered: Callable[[Listed], Listed],
        home_agent: Callable[[], str] = str,
    ) -> None:
        self._endpoints, self._application, self._entered = tuple(endpoints), application, entered
        self._home_agent = home_agent
        self._swarm: Swarm | None = None
        self._fleet: Fleet | None = None
        self._losses: LossWatch | None = None

    @property
    def swarm(self) -> Swarm:
        """The swarm, with all its nodes.  Raises MissingPrerequisite; TestbedUnavailable for a lost node."""
        if self._swarm is None:
            self._swarm = self._whole()
        return self._swarm

    @property
    def home(self) -> Node:
        """The node for load generator and hooks: the host of the trace store, else the application's first."""
        application = self._application
        if application is None:
            return self.swarm.nodes[0]
        hosts = as_designed(application).hosts
        service = application.tracing_service
        return self.swarm.host(hosts[service] if service in hosts else application.hosts[0])

    @property
    def engine(self) -> Fleet:
        """All engines as one."""
        if self._fleet is None:
            self._fleet = Fleet(self.swarm, self.home, self._entered)
        return self._fleet

    def sizes(self) -> Mapping[str, tuple[float, float]]:
        """Return host -> its node's cores and memory [MiB].  Raises MissingPrerequisite, TestbedUnavailable."""
        swarm = self.swarm
        hosts = self._application.hosts if self._application is not None and swarm.single is not None else ()
        infos = {node.host: node.engine.info() for node in swarm.nodes if node.host}
        infos |= {host: swarm.nodes[0].engine.info() for host in hosts}
        return {host: (float(info["NCPU"]), float(int(info["MemTotal"]) >> 20)) for host, info in infos.items()}

    def answering(self) -> Swarm:
        """Return the swarm as it is now, lost nodes apart.  Raises MissingPrerequisite, TestbedUnavailable."""
        return discover(self._endpoints)

    def watch(self) -> None:
        """Note from now on which nodes are lost."""
        manager = self.swarm.manager
        if self._losses is not None and self._losses.goes_on(manager):
            self._losses.lost.clear()
        else:
            self.unwatch()
            self._losses = LossWatch(manager)

    def unwatch(self) -> None:
        """Note no more."""
        if self._losses is not None:
            self._losses.close()
        self._losses = None

    def check(self) -> None:
        """Raise TestbedUnavailable where a node was lost since ``watch``, though it may be back."""
        for node in self._whole().nodes:
            if self._losses is not None and node.id in self._losses.lost:
                raise TestbedUnavailable(f"the swarm had lost node {node} during the trial")

    def _whole(self) -> Swarm:
        known = self.answering()
        if known.lost:
            raise TestbedUnavailable(f"{len(known.lost)} nodes do not answer: {'; '.join(known.lost)}")
        if away := [f"{node} ({node.state})" for node in known.nodes if node.state != "ready"]:
            raise TestbedUnavailable(f"the swarm has lost {len(away)} of its nodes: {', '.join(away)}")
        return known

    def side_containers(self) -> SideContainers:
        """Return side containers of the home node."""
        there = DockerSideContainers(self.home.engine, Connection(endpoint=self.home.endpoint))
        return OnAgent(there, self._home_agent)

    def forget(self) -> None:
        """Forget the nodes: some may have gone, or have become managers."""
        self._swarm = self._fleet = None
