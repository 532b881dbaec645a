"""Actuators of a guard."""

from __future__ import annotations

from typing import Protocol

from framework.model.guard import Change, Setting


class Actuator(Protocol):
    """Sets one kind of resource: cores, cache, network.  Each change of a knob is journalled before it is made."""

    @property
    def name(self) -> str: ...

    def missing(self) -> str:
        """Say what this machine lacks for it, in one plain sentence; empty where it works here."""

    def set(self, setting: Setting) -> list[Change]:
        """Bring the machine to a setting: look at what is set, change what differs.  Raises KnobRefused."""

    def restore(self) -> None:
        """Give back what was there before the guard, as far as it still exists.  Raises KnobRefused."""
