"""Whether every node knows the containers of all others, by name and by address.

The engines of a swarm tell each other of containers by gossip.  A message that is lost, or a network that a node leaves
and joins at the same moment, is mended after up to a minute only (libnetwork compares whole tables every 30 s).  Until
then requests to that container end in timeouts, of which no configuration is to blame.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from framework.errors import TestbedUnavailable
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.swarm.fleet import Node
from framework.testbeds.swarm.relay import PROGRAM

PATIENCE_S = 120.0  # two comparisons of whole tables, and the time until they have spread
PAUSE_S = 0.2


class Overlay:
    """The overlay networks of one deployment, as each node's container of Tailor's sees them.

    ``agents``: id of a node -> its container, which is on the networks.
    """

    def __init__(self, nodes: Sequence[Node], agents: Mapping[str, str], patience_s: float = PATIENCE_S) -> None:
        self._nodes, self._agents, self._patience_s = tuple(nodes), agents, patience_s

    def wait_for_names(self, running: Callable[[], Collection[str]]) -> None:
        """Wait until every node resolves the services that run.  ``running``: lists them, anew for each attempt.

        Raises TestbedUnavailable, naming the node and a service.
        """
        self._wait("-resolved", running, lambda asked, told: asked)

    def wait_for_listeners(self, places: Collection[str]) -> set[str]:
        """Wait until every node reaches what one node reaches; return that.  ``places``: "host:port", to be tried.

        Raises TestbedUnavailable, naming the node and a place.
        """
        return self._wait("-listening", lambda: places, lambda asked, told: set().union(*told))

    def _wait(
        self,
        command: str,
        asked: Callable[[], Collection[str]],
        wanted: Callable[[set[str], Sequence[set[str]]], set[str]],
    ) -> set[str]:
        """Ask every node until all know what is wanted; return that.  ``wanted``: of what was asked, and was told."""
        deadline = time.monotonic() + self._patience_s
        while True:
            words = set(asked())
            told = self._told(command, sorted(words)) if words else []
            known_by_all = wanted(words, told)
            lacking = [(node, min(known_by_all - known)) for node, known in zip(self._nodes, told, strict=False)
                       if known_by_all - known]  # fmt: skip
            if not lacking:
                return known_by_all
            if time.monotonic() > deadline:
                [node, what], *_ = lacking
                raise TestbedUnavailable(
                    f"node {node} does not know {what} on the overlay network, {self._patience_s:g} s after its start"
                )
            time.sleep(PAUSE_S)

    def _told(self, command: str, words: Sequence[str]) -> list[set[str]]:
        def ask(node: Node) -> set[str]:
            code, output = node.engine.execute(self._agents[node.id], [PROGRAM, command, *words])
            return set(output.split()) if code == 0 else set()

        return in_parallel(ask, self._nodes)
