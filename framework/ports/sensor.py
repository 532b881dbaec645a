"""Sensors of a guard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Sensor(Protocol):
    """Reads some of a sample's fields (``framework.model.guard.READINGS``)."""

    @property
    def name(self) -> str: ...

    @property
    def gives(self) -> tuple[str, ...]:
        """The fields that it reads."""

    def missing(self) -> str:
        """Say what this machine lacks for it, in one plain sentence; empty where it works here."""

    def read(self, now_s: float) -> Mapping[str, float]:
        """Return the readings of its last window, at a time of the monotonic clock.

        A field that cannot be read now is left out: the loop counts it as missing.  Never raises.
        """

    def close(self) -> None:
        """Let go of what it uses."""
