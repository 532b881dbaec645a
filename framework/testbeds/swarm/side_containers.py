"""Side containers of a swarm's home node, which is asked for at first use only: opening a testbed needs no engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from framework.model.side_container import Ended, SideContainer
from framework.ports.side_containers import SideContainers


class HomeSideContainers:
    """Side containers of the node that ``home`` opens; implements ``ports.side_containers.SideContainers``."""

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
