"""The count of joules that power sources have in common: it begins at zero, never shrinks, and refuses nonsense."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

from framework.energy.zones import whole
from framework.errors import KnobRefused, Transient
from framework.model.energy import MOST_WATTS, CpuTimes, Joules

SHORTEST_S = 0.1  # counters may be updated later than they are read: over less time, watts mean nothing
LONGEST_S = 60.0  # two readings of watts say nothing about a longer time between them


class CountedSource(ABC):
    """Adds up what a source says that the machine used; a subclass reads it.  Implements ``PowerSource.read``."""

    lag_s: float = 0.0

    def __init__(self) -> None:
        self._totals: dict[str, Joules] = {}
        self._at_s: float | None = None

    @abstractmethod
    def look(self, at_s: float, seconds: float | None, cpu: CpuTimes) -> Mapping[str, Joules]:
        """Return zone -> joules since the look before, which was ``seconds`` ago.

        ``seconds``: None where this look is the first, or the one before told nothing: then the joules are 0, of the
        zones there are.  Raises KnobRefused or Transient where the source cannot be read, or has lost count.
        """

    def read(self, at_s: float, cpu: CpuTimes) -> Mapping[str, Joules]:
        """Return zone -> joules since the first reading; empty where the source is unreadable or absurd."""
        seconds = None if self._at_s is None or at_s < self._at_s else at_s - self._at_s
        self._at_s = None
        try:
            growth = self.look(at_s, seconds, cpu)
        except (KnobRefused, Transient):
            return {}
        if is_absurd(growth, seconds or 0.0):
            return {}
        self._at_s = at_s
        for zone, joules in growth.items():
            total = self._totals.get(zone, Joules.exactly(0.0))
            self._totals[zone] = Joules(
                total.value + joules.value, total.low + joules.low, total.high + joules.high
            )  # fmt: skip
        return {zone: self._totals[zone] for zone in growth}

    def close(self) -> None:  # noqa: B027 - most sources have nothing to let go of
        """Let go of what it uses."""


class WattsOverTime:
    """Joules of readings of watts: between two of them, power goes from the one to the other in a straight line."""

    def __init__(self) -> None:
        self._before: Mapping[str, float] = {}

    def joules(self, seconds: float | None, watts: Mapping[str, float]) -> dict[str, Joules]:
        """Return zone -> joules since the reading before.

        Raises KnobRefused where that is too long ago, and for watts that no machine takes.
        """
        for zone, value in watts.items():
            if not 0 <= value < MOST_WATTS:
                raise KnobRefused(zone, f"{value:g} watts are not the power of a machine")
        before, self._before = self._before, watts
        if seconds is None:
            return dict.fromkeys(watts, Joules.exactly(0.0))
        if seconds > LONGEST_S:
            raise KnobRefused("power", f"the reading before is {seconds:.0f} s old, more than {LONGEST_S:.0f} s")
        return {
            zone: Joules.exactly((before.get(zone, value) + value) / 2 * seconds) for zone, value in watts.items()
        }  # fmt: skip


def is_absurd(growth: Mapping[str, Joules], seconds: float) -> bool:
    """Say whether no machine uses this in this time, or it is no amount at all."""
    most = MOST_WATTS * max(seconds, SHORTEST_S)
    amounts = [amount for joules in growth.values() for amount in (joules.low, joules.value, joules.high)]
    if not growth or not all(math.isfinite(amount) and amount >= 0 for amount in amounts):
        return True
    machine = whole(growth)
    return any(joules.value >= most for joules in (*growth.values(), *([machine] if machine else [])))
