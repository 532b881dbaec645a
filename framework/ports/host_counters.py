"""Counters that the host's kernel and processor keep of services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from framework.model import Running
from framework.model.stressors import Threads


class HostCounters(Protocol):
    """Reads counters of running services."""

    def threads(self, running: Running) -> Mapping[str, Threads]:
        """Return service -> scheduling of its threads since they started; empty where that is unknown."""

    def memory_mib(self, running: Running) -> Mapping[str, float]:
        """Return service -> its memory, without caches that the kernel could drop [MiB]; without unknown services."""

    def network_bytes(self, running: Running) -> Mapping[str, tuple[float, float]]:
        """Return service -> bytes (received, sent) since it started, all networks; without unknown services."""

    def without_hardware(self) -> str:
        """Return why there are no hardware counters; empty where there are."""

    def counted(self, running: Running, service: str) -> AbstractContextManager[Callable[[], Mapping[str, float]]]:
        """Count the service's hardware events inside the block.

        After the block, the callable returns counter -> value; empty where there are no counters.
        """

    def pipeline(
        self, running: Running, service: str
    ) -> AbstractContextManager[Callable[[], Mapping[str, float]]] | None:
        """Measure the service's pipeline slots inside the block; None where they cannot be measured.

        After the block, the callable returns category -> share of the slots, three levels deep.
        """
