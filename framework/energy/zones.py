"""Zones of a machine's energy, and which of them add up to the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from framework.model.energy import Joules

PLATFORM, MACHINE = "psys", "machine"
PACKAGE, DRAM = "package-", "dram-"


def whole(joules: Mapping[str, Joules]) -> Joules | None:
    """Return the joules of the whole machine, as far as its zones tell them; None where there is no zone.

    ``joules``: zone -> joules of one window.  psys has packages and memory in it, and is taken alone; where it tells
    less than they do, it counts nothing, as on machines whose maker did not wire it, and they are taken.  Packages
    and memory add up.  ``machine`` is taken where there are neither.
    """
    parts = [amount for zone, amount in joules.items() if zone.startswith((PACKAGE, DRAM))]
    inside = _sum(parts)
    platform = joules.get(PLATFORM)
    if platform is not None and (inside is None or platform.value >= inside.value):
        return platform
    return inside or joules.get(MACHINE)


def _sum(parts: Iterable[Joules]) -> Joules | None:
    """Add amounts whose errors have one source: the ends of their intervals add up too."""
    parts = list(parts)
    if not parts:
        return None
    return Joules(sum(part.value for part in parts), sum(part.low for part in parts), sum(part.high for part in parts))
