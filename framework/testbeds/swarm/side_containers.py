"""Side containers of a swarm's home node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from framework.model.side_container import Ended, SideContainer
from framework.ports.side_containers import SideContainers


class OnAgent:
    """Side containers in the network namespace of Tailor's container on the node; implements ``SideContainers``.

    So every node knows their address before they start.  A container that joined an overlay network itself would be
    unknown to other nodes for some time, and what a lost node had joined could never be removed.
    """

    def __init__(self, there: SideContainers, agent: Callable[[], str]) -> None:
        self._there, self._agent = there, agent

    def has_image(self, name: str) -> bool:
        return self._there.has_image(name)

    def cores(self) -> int:
        return self._there.cores()

    def run(self, wanted: SideContainer, each: Callable[[bytes], None]) -> Ended:
        agent = self._agent()  # none before a deployment
        return self._there.run(replace(wanted, network=f"container:{agent}", also=()) if agent else wanted, each)


class HomeSideContainers:
    """Side containers of the node that ``home`` opens at first use; implements ``SideContainers``.

    So opening a testbed needs no engine.
    """

    def __init__(self, home: Callable[[], SideContainers]) -> None:
        self._open = home

    @cached_property
    def _home(self) -> SideContainers:
        return self._open()

    def has_image(self, name: str) -> bool:
        return self._home.has_image(name)

    def cores(self) -> int:
        return self._home.cores()

    def run(self, wanted: SideContainer, each: Callable[[bytes], None]) -> Ended:
        return self._home.run(wanted, each)
