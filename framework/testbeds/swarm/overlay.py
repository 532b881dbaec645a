"""Whether every node knows the containers of all others, by name and by address.

The engines of a swarm tell each other of containers by gossip.  A message that is lost, or a network that a node leaves
and joins at the same moment, is mended after up to a minute only (libnetwork compares whole tables every 30 s).  Until
then requests to that container end in timeouts, of which no configuration is to blame.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from framework.errors import TestbedUnavailable
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.swarm.fleet import Node
from framework.testbeds.swarm.relay import PROGRAM

PATIENCE_S = 120.0  # two comparisons of whole tables, and the time until they have spread
PAUSE_S = 0.2


def wait_until_known(
    nodes: Sequence[Node],
    agents: Mapping[str, str],
    running: Callable[[], Mapping[str, Sequence[str]]],
    patience_s: float = PATIENCE_S,
) -> None:
    """Wait until every node knows what runs: a name means its containers, and packets go to them and back.

    ``agents``: id of a node -> a container of Tailor's there that is on the networks.  ``running``: name -> addresses
    of its containers, listed anew for each attempt.  Raises TestbedUnavailable, naming the node and a service.
    """
    deadline = time.monotonic() + patience_s
    while True:
        words = [f"{name}={','.join(addresses)}" for name, addresses in sorted(running().items()) if addresses]
        if not words:
            return

        def unknown(node: Node, words: Sequence[str] = words) -> set[str]:
            code, output = node.engine.execute(agents[node.id], [PROGRAM, "-known", *words])
            return set(words) - set(output.split()) if code == 0 else set(words)

        lacking = [(node, left) for node, left in zip(nodes, in_parallel(unknown, nodes), strict=True) if left]
        if not lacking:
            return
        if time.monotonic() > deadline:
            [node, left], *_ = lacking
            name, _, addresses = min(left).partition("=")
            raise TestbedUnavailable(
                f"node {node} does not know {name} ({addresses}) on the overlay network after {patience_s:g} s"
            )
        time.sleep(PAUSE_S)
