"""What the host's kernel and processor count of services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from framework.model import Running
from framework.model.stressors import Threads


class HostCounters(Protocol):
    """Reads counters of services that run."""

    def threads(self, running: Running) -> Mapping[str, Threads]:
        """Service -> how its threads were scheduled so far; empty where nobody can tell."""

    def memory_mib(self, running: Running) -> Mapping[str, float]:
        """Service -> the memory that it holds, without what the kernel could drop [MiB]; nothing where nobody knows."""

    def without_hardware(self) -> str:
        """Why there are no hardware counters; empty where there are."""

    def counted(self, running: Running, service: str) -> AbstractContextManager[Callable[[], Mapping[str, float]]]:
        """The service's hardware counters inside the block, told afterwards; nothing where there are none."""

    def pipeline(
        self, running: Running, service: str
    ) -> AbstractContextManager[Callable[[], Mapping[str, float]]] | None:
        """The shares of the service's pipeline slots inside the block, three levels deep; None: nobody can tell."""
